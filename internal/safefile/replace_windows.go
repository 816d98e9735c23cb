package safefile

import (
	"errors"
	"os"
	"time"

	"golang.org/x/sys/windows"
)

// Own does nothing: on this system the folder decides who owns a new file.
func Own(*os.File, string) error { return nil }

// rename tries for a second: Windows refuses while another program reads one of the files.
func rename(from, to string) (err error) {
	for until := time.Now().Add(time.Second); time.Now().Before(until); time.Sleep(time.Millisecond) {
		err = os.Rename(from, to)
		if !errors.Is(err, windows.ERROR_ACCESS_DENIED) && !errors.Is(err, windows.ERROR_SHARING_VIOLATION) {
			return err
		}
	}
	return err
}

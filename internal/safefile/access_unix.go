//go:build unix

package safefile

import (
	"io/fs"

	"golang.org/x/sys/unix"
)

// writable returns why this process can't create files in a folder.
func writable(folder string) error {
	if err := unix.Access(folder, unix.W_OK|unix.X_OK); err != nil {
		return &fs.PathError{Op: "access", Path: folder, Err: err}
	}
	return nil
}

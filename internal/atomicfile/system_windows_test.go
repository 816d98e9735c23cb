package atomicfile

import (
	"os"
	"testing"
	"testing/synctest"
)

// A file that another program reads is replaced when that program has closed it; if it does not, that is an error.
func TestWriteWhileRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reader, err := os.CreateTemp("", "*")
		if err != nil {
			t.Fatal(err)
		}
		defer os.Remove(reader.Name())
		if err := Write(reader.Name(), []byte("text"), false); err == nil {
			t.Error("a file that stays open was replaced")
		}
		written := make(chan error)
		go func() { written <- Write(reader.Name(), []byte("text"), false) }()
		synctest.Wait() // until Windows has refused
		reader.Close()
		if err := <-written; err != nil {
			t.Error(err)
		}
	})
}

package safefile

import (
	"os"
	"testing"
	"testing/synctest"

	"github.com/mcp-metarouter/metarouter/test/expect"
)

// A file that another program reads is replaced when that program has closed it; if it does not, that is an error.
func TestWriteWhileRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reader, err := os.CreateTemp("", "*")
		expect.OK(t, err)
		defer os.Remove(reader.Name())
		if err := Write(reader.Name(), []byte("text"), false); err == nil {
			t.Error("a file that stays open was replaced")
		}
		written := make(chan error)
		go func() { written <- Write(reader.Name(), []byte("text"), false) }()
		synctest.Wait() // until Windows has refused
		reader.Close()
		expect.OK(t, <-written)
	})
}

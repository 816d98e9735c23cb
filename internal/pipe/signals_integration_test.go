//go:build linux

package pipe

import (
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mcp-metarouter/metarouter/test/layer"
)

// A signal, such as one of Go's scheduler, does not hide a reader.
func TestHasReaderDuringSignals(t *testing.T) {
	layer.Integration(t)
	_, w := open(t)
	runtime.LockOSThread()
	process, thread := unix.Getpid(), unix.Gettid()
	go func() {
		for t.Context().Err() == nil {
			unix.Tgkill(process, thread, unix.SIGURG)
		}
	}()
	for range 200_000 {
		if !w.HasReader() {
			t.Fatal("it has no reader")
		}
	}
}

//go:build unix

package pipe

import (
	"bytes"
	"errors"
	"io"
	"os"
	"syscall"
	"testing"

	"github.com/mcp-metarouter/metarouter/test/expect"
	"github.com/mcp-metarouter/metarouter/test/layer"
)

func open(t *testing.T) (r, w *End) {
	t.Helper()
	rf, wf, err := os.Pipe()
	expect.OK(t, err)
	r, w = New(rf), New(wf)
	t.Cleanup(func() {
		r.Close()
		w.Close()
	})
	return r, w
}

// TryWrite writes as much as fits and does not wait.
func TestTryWrite(t *testing.T) {
	layer.Integration(t)
	r, w := open(t)
	data := bytes.Repeat([]byte("0123456789abcdef"), 1<<18) // 4 MiB
	n, err := w.TryWrite(data)
	if err != nil || n <= 0 || n == len(data) {
		t.Fatalf("wrote %d of %d, %v", n, len(data), err)
	}
	if m, err := w.TryWrite(data[n:]); m != 0 || err != nil {
		t.Errorf("wrote %d into a full pipe, %v", m, err)
	}
	go func() {
		w.Write(data[n:])
		w.Close()
	}()
	if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, data) {
		t.Errorf("%d bytes came, %v", len(got), err)
	}
}

func TestTryWriteToNobody(t *testing.T) {
	layer.Integration(t)
	r, w := open(t)
	r.Close()
	if n, err := w.TryWrite([]byte("x")); n != 0 || !errors.Is(err, syscall.EPIPE) {
		t.Errorf("wrote %d, %v", n, err)
	}
	w.Close()
	if n, err := w.TryWrite([]byte("x")); n != 0 || err == nil {
		t.Errorf("wrote %d to what is closed", n)
	}
}

func TestHasReader(t *testing.T) {
	layer.Integration(t)
	r, w := open(t)
	expect.Equal(t, w.HasReader(), true, "a pipe with a reader")
	w.Write(make([]byte, 10))
	r.Close()
	expect.Equal(t, w.HasReader(), false, "a pipe without a reader")
	file, err := os.Create(t.TempDir() + "/out")
	expect.OK(t, err)
	defer file.Close()
	expect.Equal(t, New(file).HasReader(), true, "a file")
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	expect.OK(t, err)
	ours, theirs := os.NewFile(uintptr(fds[0]), "ours"), os.NewFile(uintptr(fds[1]), "theirs")
	defer ours.Close()
	syscall.Shutdown(fds[1], syscall.SHUT_WR)
	expect.Equal(t, New(ours).HasReader(), true, "a socket whose other end only stopped sending")
	theirs.Close()
	expect.Equal(t, New(ours).HasReader(), false, "a closed socket")
}

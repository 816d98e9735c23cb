//go:build unix

package pipe

import (
	"bytes"
	"errors"
	"io"
	"os"
	"runtime"
	"syscall"
	"testing"
)

func open(t *testing.T) (r, w *End) {
	t.Helper()
	rf, wf, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	r, w = New(rf), New(wf)
	t.Cleanup(func() {
		r.Close()
		w.Close()
	})
	return r, w
}

// TryWrite writes as much as fits and does not wait.
func TestTryWrite(t *testing.T) {
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

// The number of enlarged pipes is bounded; a closed one makes room for another.
func TestHasReader(t *testing.T) {
	r, w := open(t)
	if !w.HasReader() {
		t.Error("a pipe with a reader has none")
	}
	w.Write(make([]byte, 10))
	r.Close()
	if w.HasReader() {
		t.Error("a pipe without a reader has one")
	}
	file, err := os.Create(t.TempDir() + "/out")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if !New(file).HasReader() {
		t.Error("a file has no reader")
	}
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	ours, theirs := os.NewFile(uintptr(fds[0]), "ours"), os.NewFile(uintptr(fds[1]), "theirs")
	defer ours.Close()
	if syscall.Shutdown(fds[1], syscall.SHUT_WR); !New(ours).HasReader() {
		t.Error("a socket whose other end only stopped sending has no reader")
	}
	theirs.Close()
	if New(ours).HasReader() {
		t.Error("a closed socket has a reader")
	}
}

func TestEnlarged(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux has pipes of any size")
	}
	data := make([]byte, 2<<20)
	holds := func(w *End) int {
		n, err := w.TryWrite(data)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	var last *End
	for range maxEnlarged {
		_, last = open(t)
		if n := holds(last); n != enlarged {
			t.Skipf("this user's pipes can't be enlarged: one holds %d bytes", n)
		}
	}
	_, small := open(t)
	if n := holds(small); n != usual {
		t.Errorf("one more holds %d bytes", n)
	}
	last.Close()
	_, w := open(t)
	if n := holds(w); n != enlarged {
		t.Errorf("when another is closed, one holds %d bytes", n)
	}
}

// A pipe that is closed while it is enlarged does not count afterwards.
func TestClosedWhileEnlarged(t *testing.T) {
	before := large.Load()
	data := make([]byte, usual+1)
	for range 2000 {
		r, w := open(t)
		tried := make(chan struct{})
		go func() {
			defer close(tried)
			w.TryWrite(data)
		}()
		runtime.Gosched()
		w.Close()
		<-tried
		r.Close()
	}
	if n := large.Load() - before; n != 0 {
		t.Errorf("%d pipes count as enlarged that are closed", n)
	}
}

// Package pipe makes pipes between processes fast. It enlarges the buffers of pipes that carry
// large messages, and writes without waiting if the buffer has room.
package pipe

import (
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// usual is the size of a pipe's buffer on Linux, in bytes.
	usual = 64 << 10

	// enlarged is the largest size that every user may ask for.
	enlarged = 1 << 20

	// maxEnlarged bounds the enlarged pipes of this process. If a user has more than 64 MiB
	// in all pipes, new pipes get one page only.
	maxEnlarged = 24
)

// large is the number of enlarged pipes.
var large atomic.Int32

// An End is one end of a pipe. It enlarges the pipe's buffer when a large message comes, if the
// system supports that. For a file that is not a pipe it is just the file. One goroutine at a
// time may read, and one may write.
type End struct {
	*os.File
	quick quick
	once  sync.Once
	grown atomic.Bool
}

// New returns the file as an End.
func New(f *os.File) *End { return &End{File: f, quick: quickOf(f)} }

// Inherited returns an End for a file that this process inherited. Waiting for it takes no
// thread, if the system supports that. The caller must keep the file.
func Inherited(f *os.File) *End {
	if polled := polled(f); polled != nil {
		return New(polled)
	}
	return New(f)
}

// Read implements [io.Reader].
func (e *End) Read(p []byte) (int, error) {
	n, err := e.quick.read(p)
	if n >= usual/2 {
		e.grow()
	}
	return n, err
}

// Write implements [io.Writer].
func (e *End) Write(p []byte) (int, error) {
	if len(p) > usual {
		e.grow()
	}
	return e.quick.write(p)
}

// TryWrite writes as much of p as possible without waiting, perhaps nothing. It must not run at
// the same time as Write.
func (e *End) TryWrite(p []byte) (int, error) {
	if len(p) > usual {
		e.grow()
	}
	return e.quick.tryWrite(p)
}

// HasReader reports whether the other end is open. It returns false if that is unknown.
func (e *End) HasReader() bool { return hasReader(e.File) }

// SetWriteDeadline does the same as [os.File.SetWriteDeadline], but ignores the error of a file
// without deadlines.
func (e *End) SetWriteDeadline(t time.Time) { _ = e.File.SetWriteDeadline(t) }

// Close implements [io.Closer].
func (e *End) Close() error {
	e.once.Do(func() {}) // waits for grow and prevents a later one
	if e.grown.CompareAndSwap(true, false) {
		large.Add(-1)
	}
	return e.File.Close()
}

func (e *End) grow() {
	e.once.Do(func() {
		if large.Add(1) > maxEnlarged || !enlarge(e.File) {
			large.Add(-1)
			return
		}
		e.grown.Store(true)
	})
}

var _ io.ReadWriteCloser = (*End)(nil)

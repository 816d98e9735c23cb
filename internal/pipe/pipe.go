// Package pipe makes pipes between processes fast: messages of a megabyte cross
// one in large pieces, and writing does not wait where it need not.
package pipe

import (
	"errors"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// usual is how much a pipe holds on Linux unless it is enlarged.
	usual = 64 << 10

	// enlarged is how much one holds then: what any user may ask for.
	enlarged = 1 << 20

	// maxEnlarged bounds the pipes that this process has enlarged at a time: a user
	// may have 64 MiB in pipes, beyond which new ones are of a page each.
	maxEnlarged = 24
)

// large counts the pipes that are enlarged.
var large atomic.Int32

// An End is one end of a pipe. It is enlarged when it turns out to be too small
// for what goes through it, if the system allows. Of a file that is no pipe it is
// just the file. Only one may read at a time, and one write.
type End struct {
	*os.File
	once  sync.Once
	grown atomic.Bool

	read, write *attempt // nil if each of them waits
}

// New returns the file as an End.
func New(f *os.File) *End {
	e := &End{File: f}
	e.read, e.write = attempts(immediate(f))
	return e
}

// Inherited returns the file, which this process was started with, as an End that
// takes no thread to wait on, where the system allows. The file must be kept.
func Inherited(f *os.File) *End {
	if polled := polled(f); polled != nil {
		return New(polled)
	}
	return New(f)
}

// errNotTried says that the file could not be tried: it is closed, or a deadline
// has passed. Its own methods say which.
var errNotTried = errors.New("closed or too late")

// Read implements [io.Reader].
func (e *End) Read(p []byte) (int, error) {
	n, err := readBy(e.read, e.File, p)
	if n >= usual/2 {
		e.grow()
	}
	return n, err
}

// readBy makes the attempt, or has slow read where there is none or it can't be
// made.
func readBy(a *attempt, slow io.Reader, p []byte) (int, error) {
	if a != nil && len(p) > 0 {
		if n, err := tryRead(a, p); !errors.Is(err, errNotTried) {
			return n, err
		}
	}
	return slow.Read(p)
}

// Write implements [io.Writer].
func (e *End) Write(p []byte) (int, error) {
	if len(p) > usual {
		e.grow()
	}
	return writeBy(e.write, e.File, p)
}

// writeBy makes the attempt, and has slow write what that leaves.
func writeBy(a *attempt, slow io.Writer, p []byte) (n int, err error) {
	if a != nil {
		if n, err = tryWrite(a, p); n == len(p) || err != nil && !errors.Is(err, errNotTried) {
			return n, err
		}
	}
	rest, err := slow.Write(p[n:])
	return n + rest, err
}

// TryWrite writes as much of p as can be written without waiting, which may be
// nothing. It must not be called while a Write is under way.
func (e *End) TryWrite(p []byte) (int, error) {
	if len(p) > usual {
		e.grow()
	}
	if e.write == nil {
		return 0, nil
	}
	return tryWrite(e.write, p)
}

// HasReader reports whether anybody is there to read what is written: false if it
// can't be told.
func (e *End) HasReader() bool { return hasReader(e.File) }

// SetWriteDeadline implements [os.File.SetWriteDeadline], without its error where
// the file has no deadlines.
func (e *End) SetWriteDeadline(t time.Time) { _ = e.File.SetWriteDeadline(t) }

// Close implements [io.Closer].
func (e *End) Close() error {
	e.once.Do(func() {}) // it is not enlarged any more, or has been
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

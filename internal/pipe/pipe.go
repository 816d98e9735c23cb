// Package pipe makes pipes between processes fast: it reads and writes without waiting if the
// buffer has data or room.
package pipe

import (
	"cmp"
	"os"
)

// An End is one end of a pipe. For a file that is not a pipe it is just the file. One goroutine at a
// time may read, and one may write.
type End struct {
	*os.File
	quick quick
}

// New returns the file as an End.
func New(f *os.File) *End { return &End{f, quickOf(f)} }

// Inherited returns an End for a file that this process inherited. Waiting for it takes no
// thread, if the system supports that. The caller must keep the file.
func Inherited(f *os.File) *End { return New(cmp.Or(polled(f), f)) }

// Read implements [io.Reader].
func (e *End) Read(p []byte) (int, error) { return e.quick.read(p) }

// Write implements [io.Writer].
func (e *End) Write(p []byte) (int, error) { return e.quick.write(p) }

// TryWrite writes as much of p as possible without waiting, perhaps nothing. It must not run at
// the same time as Write.
func (e *End) TryWrite(p []byte) (int, error) { return e.quick.tryWrite(p) }

// HasReader reports whether the other end is open. It returns false if that is unknown.
func (e *End) HasReader() bool { return hasReader(e.File) }

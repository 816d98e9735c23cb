package pipe

import (
	"errors"
	"io"
	"os"
)

// A Stage is a pipe before another file, which Windows does not have.
type Stage struct{}

var errNoStage = errors.New("there are no stages on Windows")

// NewStage fails.
func NewStage() (*Stage, error) { return nil, errNoStage }

// StageOf fails.
func StageOf(*os.File, *os.File) (*Stage, error) { return nil, errNoStage }

// Files returns nil.
func (*Stage) Files() []*os.File { return nil }

// Close does nothing.
func (*Stage) Close() {}

// Leads returns false.
func (*Stage) Leads(io.Writer) (*End, bool) { return nil, false }

// Put returns false.
func (*Stage) Put([]byte) bool { return false }

// Take returns nil.
func (*Stage) Take() []byte { return nil }

// Len returns 0.
func (*Stage) Len() int { return 0 }

// Move fails.
func (*Stage) Move(*End, int) error { return errNoStage }

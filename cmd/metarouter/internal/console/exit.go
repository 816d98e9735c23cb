package console

import (
	"errors"
	"fmt"
	"io"
)

// Exit codes, as scripts rely on them.
const (
	Failed   = 1 // the tool or an operation failed
	BadUsage = 2 // wrong usage, or a bad configuration
	NoTool   = 3 // no tool fits
)

// An Error ends the program with an exit code. If Err is nil, nothing more is printed.
type Error struct {
	Code int
	Err  error
}

func (e *Error) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit code %d", e.Code)
	}
	return e.Err.Error()
}

func (e *Error) Unwrap() error { return e.Err }

// Interrupted is returned where a signal cut the work short.
var Interrupted = &Error{Failed, errors.New("interrupted")}

// Usage returns err as an error with the code [BadUsage]; nil for nil.
func Usage(err error) error {
	if err == nil {
		return nil
	}
	return &Error{BadUsage, err}
}

// Report prints an error on stderr, and returns the exit code.
func Report(err error, stderr io.Writer) int {
	e, ok := errors.AsType[*Error](err)
	switch {
	case err == nil:
		return 0
	case !ok:
		e = &Error{Failed, err}
	}
	if e.Err != nil {
		fmt.Fprintf(stderr, "metarouter: %s\n", e.Err)
	}
	return e.Code
}

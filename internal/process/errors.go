package process

import (
	"fmt"

	"github.com/mcp-metarouter/metarouter/internal/secret"
)

// A MissingError is a command that can't be found.
type MissingError struct {
	Command string
	Path    string // the PATH that was searched; "" if Command names a file
	Err     error  // the fault of the file that Command names; nil if it was searched for
}

// Error hides secrets, since Command may be a whole command line.
func (e *MissingError) Error() string {
	if e.Err != nil {
		return secret.Hide(fmt.Sprintf("command %s: %v", e.Command, e.Err), "…")
	}
	return fmt.Sprintf("command %q is not on PATH (%s), nor where version managers keep programs; install it, or write its full path", secret.Hide(e.Command, "…"), e.Path)
}

func (e *MissingError) Unwrap() error { return e.Err }

// A StartError is a program that the system can't start.
type StartError struct {
	Path string
	Err  error
}

func (e *StartError) Error() string { return fmt.Sprintf("start %s: %v", e.Path, e.Err) }
func (e *StartError) Unwrap() error { return e.Err }

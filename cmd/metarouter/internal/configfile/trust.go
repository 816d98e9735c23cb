package configfile

import (
	"context"
	"errors"
	"fmt"

	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/console"
	"github.com/mcp-metarouter/metarouter/internal/plain"
	"github.com/mcp-metarouter/metarouter/internal/trustfile"
)

// A Waiting is the error for a text that waits for a person's approval, with the command that
// approves it.
type Waiting struct {
	*trustfile.Untrusted
	Command string
}

func (w *Waiting) Error() string {
	return plain.Line(w.Untrusted.Error()) + "; read it, then run: " + w.Command
}

func (w *Waiting) Unwrap() error { return w.Untrusted }

// Explain adds the command to an error of [trustfile.Text.Trusted] for a text that waits for
// approval. Other errors stay as they are.
func Explain(err error, command string) error {
	if u, ok := errors.AsType[*trustfile.Untrusted](err); ok {
		return &Waiting{u, command}
	}
	return err
}

// AskTrust shows on stderr a text that is not trusted, and how it differs from the approved one, and asks
// the person at the terminal whether to use it.
func AskTrust(ctx context.Context, c *console.Console, u *trustfile.Untrusted) (yes bool, err error) {
	fmt.Fprintf(c.Err, "%s. It says:\n%s", plain.Line(u.Error()), Describe(u.Text, u))
	return c.Confirm(ctx, "Use it? [y/N]")
}

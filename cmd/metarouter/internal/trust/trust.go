// Package trust shows a configuration to a person, and asks whether it may be used.
// A configuration that was found and not named runs commands of other people, so that it
// must be approved first. Package trustfile keeps the approvals.
package trust

import (
	"context"
	"errors"
	"fmt"

	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/console"
	"github.com/mcp-metarouter/metarouter/internal/commandline"
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

// Command returns the command that approves a file. file is "" for the .mcp.json of the
// person's current folder, and data is "" for the usual data folder.
func Command(file, data string) string {
	command := "metarouter trust"
	if file != "" {
		command += " " + commandline.Quote(plain.Line(file))
	}
	if data != "" {
		command += " --data " + commandline.Quote(plain.Line(data))
	}
	return command
}

// Ask shows on stderr a text that is not trusted, and how it differs from the approved one, and asks
// the person at the terminal whether to use it.
func Ask(ctx context.Context, c *console.Console, u *trustfile.Untrusted) (yes bool, err error) {
	fmt.Fprintf(c.Err, "%s. It says:\n%s", plain.Line(u.Error()), Describe(u.Text, u))
	return c.Confirm(ctx, "Use it? [y/N]")
}

// Package trust shows a person what a configuration says, and asks whether it may be used.
// A configuration that was found and not named runs commands of other people, so that it
// must be approved first. Package trustfile keeps the approvals.
package trust

import (
	"context"
	"errors"
	"fmt"

	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/clients"
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

// Command returns what a person types to approve a file. file is "" for the .mcp.json of the
// person's current folder, and data is "" for the usual data folder.
func Command(file, data string) string {
	command := "metarouter trust"
	if file != "" {
		command += " " + clients.Word(plain.Line(file))
	}
	if data != "" {
		command += " --data " + clients.Word(plain.Line(data))
	}
	return command
}

// Ask shows on stderr what a text says that is not trusted, and how it differs from the approved
// one, and asks the person at the terminal whether to use it.
func Ask(ctx context.Context, c *console.Console, u *trustfile.Untrusted) (yes bool, err error) {
	fmt.Fprintf(c.Err, "%s. It says:\n%s", plain.Line(u.Error()), Describe(u.Text, u))
	return c.Confirm(ctx, "Use it? [y/N]")
}

// Package trust shows a person what a configuration says, and asks whether it may be used.
// A configuration that was found and not named runs commands of other people, so that it
// must be approved first. Package config keeps the approvals.
package trust

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/clients"
	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/plain"
)

// A Waiting is the error for a text that waits for a person's approval, with the command that
// approves it.
type Waiting struct {
	*config.Untrusted
	Command string
}

func (w *Waiting) Error() string {
	return plain.Line(w.Untrusted.Error()) + "; read it, then run: " + w.Command
}

func (w *Waiting) Unwrap() error { return w.Untrusted }

// Explain adds the command to an error of [config.Config.Trusted] for a text that waits for
// approval. Other errors stay as they are.
func Explain(err error, command string) error {
	if u, ok := errors.AsType[*config.Untrusted](err); ok {
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

// Ask shows on out what a text says that is not trusted, and how it differs from the approved
// one, and asks whether to use it. readLine shows the question and returns the line that the
// person types then.
func Ask(ctx context.Context, readLine func(ctx context.Context, question func()) (string, error), out io.Writer, u *config.Untrusted) (yes bool, err error) {
	fmt.Fprintf(out, "%s. It says:\n%s", plain.Line(u.Error()), Describe(u.Text, u))
	line, err := readLine(ctx, func() {
		fmt.Fprintln(out, "Use it? [y/N]") // it ends its line, since log lines may follow before the answer
	})
	if errors.Is(err, io.EOF) {
		return false, nil
	}
	return strings.HasPrefix(strings.ToLower(strings.TrimSpace(line)), "y"), err
}

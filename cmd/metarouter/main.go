// Command metarouter is one MCP server in front of many: it keeps the servers
// of a .mcp.json running, finds the right tool for a task and runs it.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	_ "github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/early" // is the process guard
	"github.com/mcp-metarouter/metarouter/internal/pipe"
	"github.com/mcp-metarouter/metarouter/internal/secret"
	"github.com/mcp-metarouter/metarouter/supervisor"
)

// Exit codes, as scripts rely on them.
const (
	exitFailed = 1 // the tool or an operation failed
	exitUsage  = 2 // wrong usage, or a bad config
	exitNoTool = 3 // no tool fits
)

// An exitError ends the program with an exit code. If err is nil, nothing more is
// printed.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// errInterrupted is returned where a signal cut the work short.
var errInterrupted = &exitError{exitFailed, errors.New("interrupted")}

// checked is a writer that remembers its first error.
type checked struct {
	w   io.Writer
	err error
}

func (c *checked) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	if c.err == nil {
		c.err = err
	}
	return n, err
}

// HasReader reports whether a process reads what is written, as far as that is known.
func (c *checked) HasReader() bool {
	w, tells := c.w.(interface{ HasReader() bool })
	return !tells || w.HasReader()
}

func usage(err error) error {
	if err == nil {
		return nil
	}
	return &exitError{exitUsage, err}
}

func main() {
	supervisor.OpenForUser(os.Args)
	if os.Getenv(supervisor.ReportVariable) != "" { // npx runs this program as its shell
		if err := supervisor.Report(os.Stdout, os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, "metarouter:", err)
			os.Exit(exitFailed)
		}
		return
	}
	secret.Token() // so that no child gets it
	os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// sameSignal is the time within which two signals count as one: timeout(1) sends a signal
// to this process and again to its group.
const sameSignal = 200 * time.Millisecond

// run is the program; it returns its exit code.
func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// A second signal ends this process at once, and the guard kills the servers.
	context.AfterFunc(ctx, func() { time.AfterFunc(sameSignal, stop) })
	out := &checked{w: stdout}
	if f, ok := stdout.(*os.File); ok {
		out.w = pipe.Inherited(f)
	}
	env := &environment{stdin: stdin, args: args, streams: [...]any{stdin, stdout, stderr}}
	env.setOutput(out, stderr)
	err := execute(ctx, env)
	if err == nil && out.err != nil {
		err = &exitError{exitFailed, fmt.Errorf("write the answer: %w", out.err)}
	}
	return exitCode(err, env.stderr)
}

// execute runs the subcommand that the arguments name.
func execute(ctx context.Context, env *environment) error {
	root := newRootCommand(env)
	root.SetArgs(env.args)
	command, err := root.ExecuteContextC(ctx)
	if err == nil {
		err = forgotten(root, command)
	}
	if exit := (*exitError)(nil); err == nil || errors.As(err, &exit) {
		return err
	}
	// cobra reports an unknown command or flag
	return usage(fmt.Errorf("%w\ntry '%s --help'", err, command.CommandPath()))
}

// forgotten returns an error where cobra printed the help because it found no command, though
// the user did not ask for it.
func forgotten(root, command *cobra.Command) error {
	if command.Name() == "help" {
		if _, _, err := root.Find(command.Flags().Args()); err != nil {
			return usage(fmt.Errorf("%w; the commands are listed above", err))
		}
	}
	flags := root.Flags()
	if command == root && flags.Changed("config") && !flags.Changed("help") && !flags.Changed("version") {
		files, _ := flags.GetStringArray("config")
		return usage(fmt.Errorf("no command was given; --config takes a file, here %q: write the file, then a command", files[len(files)-1]))
	}
	return nil
}

// exitCode prints an error, and returns what the program exits with.
func exitCode(err error, stderr io.Writer) int {
	var exit *exitError
	switch {
	case err == nil:
		return 0
	case !errors.As(err, &exit):
		fmt.Fprintf(stderr, "metarouter: %s\n", err)
		return exitFailed
	case exit.err != nil:
		fmt.Fprintf(stderr, "metarouter: %s\n", exit.err)
	}
	return exit.code
}

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

	"github.com/spf13/cobra"

	"github.com/mcp-metarouter/metarouter/internal/pipe"
	"github.com/mcp-metarouter/metarouter/supervisor"
)

// version is set by the linker in released binaries.
var version = "0.1.0-dev"

// Exit codes, as scripts rely on them.
const (
	exitFailed = 1 // the tool or an operation failed
	exitUsage  = 2 // wrong usage, or a bad config
	exitNoTool = 3 // no tool fits
)

// An exitError ends the program with its code. Without an error nothing more is
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

// HasReader reports whether anybody reads what is written, as far as that is known.
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
	if os.Getenv(supervisor.ReportVariable) != "" { // npx was told that this is its shell
		if err := supervisor.Report(os.Stdout, os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, "metarouter:", err)
			os.Exit(exitFailed)
		}
		return
	}
	os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// run is the program; it returns its exit code.
func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends us at once; the guard clears up
	out := &checked{w: stdout}
	if f, ok := stdout.(*os.File); ok {
		out.w = pipe.Inherited(f)
	}
	a := &app{stdin: stdin, stdout: out, stderr: stderr, args: args, streams: [...]any{stdin, stdout, stderr}}
	err := a.execute(ctx)
	if err == nil && out.err != nil {
		err = &exitError{exitFailed, fmt.Errorf("write the answer: %w", out.err)}
	}
	return exitCode(err, stderr)
}

// execute runs the command that the arguments name.
func (a *app) execute(ctx context.Context) error {
	root := a.root()
	root.SetArgs(a.args)
	command, err := root.ExecuteContextC(ctx)
	if exit := (*exitError)(nil); err == nil || errors.As(err, &exit) {
		return err
	}
	// cobra's own: an unknown command or flag
	return usage(fmt.Errorf("%w\ntry '%s --help'", err, command.CommandPath()))
}

// exitCode prints an error, and returns what the program exits with.
func exitCode(err error, stderr io.Writer) int {
	var exit *exitError
	switch {
	case err == nil:
		return 0
	case !errors.As(err, &exit):
		fmt.Fprintf(stderr, "metarouter: %v\n", err)
		return exitFailed
	case exit.err != nil:
		fmt.Fprintf(stderr, "metarouter: %v\n", exit.err)
	}
	return exit.code
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:     "metarouter",
		Short:   "One MCP server in front of many",
		Version: version,
		Long: `metarouter keeps the MCP servers of a .mcp.json running, finds the right tool
for a task, runs it on the right server, and shows all of them to a client as
one MCP server.`,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	flags := root.PersistentFlags()
	flags.StringArrayVar(&a.configs, "config", nil, "configuration `file`; repeatable, later wins (default ./.mcp.json, else the user's)")
	flags.StringVar(&a.data, "data", defaultData(), "`folder` for the catalog and servers' logs; \"\" keeps nothing")
	flags.StringVar(&a.logLevel, "log-level", "", "debug, info, warn or error (default info for serve, else silence)")
	for _, cmd := range []*cobra.Command{
		a.route(), a.search(), a.call(), a.tools(), a.servers(), a.restart(), a.capabilities(), a.classify(), a.usage(),
	} {
		cmd.Flags().BoolVar(&a.standalone, "standalone", false, "do not ask a running router")
		root.AddCommand(cmd)
	}
	if a.router == nil {
		root.AddCommand(
			a.serve(), a.dashboard(), a.importServers(), a.install(), a.check(), a.trust(), a.eval(), a.schema(), a.builtin(), a.version(),
			a.man(root), a.health(), a.guard(),
		)
	}
	a.complete(root)
	return root
}

// leaf returns a subcommand. Errors of do are failures unless they say otherwise.
func leaf(use, short, example string, args cobra.PositionalArgs, do func(ctx context.Context, args []string) error) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short, Example: example, Args: args,
		RunE: func(cmd *cobra.Command, args []string) error {
			err := do(cmd.Context(), args)
			var exit *exitError
			if err != nil && !errors.As(err, &exit) {
				return &exitError{exitFailed, err}
			}
			return err
		},
	}
}

func (a *app) version() *cobra.Command {
	return leaf("version", "Print the version", "  metarouter version", cobra.NoArgs,
		func(context.Context, []string) error {
			_, err := fmt.Fprintln(a.stdout, "metarouter", version)
			return err
		})
}

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

	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/configfile"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/console"
	"github.com/mcp-metarouter/metarouter/internal/process"
	"github.com/mcp-metarouter/metarouter/internal/secret"
)

func main() {
	process.Open(os.Args)
	if os.Getenv(process.ReportVariable) != "" { // npx runs this program as its shell
		if err := process.Report(os.Stdout, os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, "metarouter:", err)
			os.Exit(console.Failed)
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
	out := console.New(stdin, stdout, stderr)
	err := execute(ctx, out, args)
	if fault := out.Fault(); err == nil && fault != nil {
		err = fmt.Errorf("write the answer: %w", fault)
	}
	return console.Report(err, out.Err)
}

func execute(ctx context.Context, out *console.Console, args []string) error {
	files := &configfile.Source{Console: out}
	out.Advise = files.Advise
	root := newRootCommand(files, args)
	root.SetArgs(args)
	command, err := root.ExecuteContextC(ctx)
	if e, ok := errors.AsType[*console.Error](err); err == nil || ok && e.Err == nil {
		return err
	} else if ok {
		return &console.Error{Code: e.Code, Err: errors.New(files.Advise(e.Error()))}
	}
	// cobra reports an unknown command or flag
	return console.Usage(fmt.Errorf("%w\ntry '%s --help'", err, command.CommandPath()))
}

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
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/configfile"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/console"
	"github.com/mcp-metarouter/metarouter/internal/lazy"
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
	root := newRootCommand(out, args)
	root.SetArgs(args)
	command, err := root.ExecuteContextC(ctx)
	if err == nil {
		err = forgotten(root, command)
	}
	if e, ok := errors.AsType[*console.Error](err); err == nil || ok && e.Err == nil {
		return err
	} else if ok {
		files, _ := root.PersistentFlags().GetStringArray("config")
		source := configfile.Source{Paths: files}
		return &console.Error{Code: e.Code, Err: errors.New(source.Advise(e.Error()))}
	}
	if said := exclusive().FindStringSubmatch(err.Error()); said != nil {
		err = errors.New("write only one of --" + strings.ReplaceAll(said[1], " ", ", --"))
	}
	// cobra reports an unknown command or flag
	return console.Usage(fmt.Errorf("%w\ntry '%s --help'", err, command.CommandPath()))
}

// exclusive matches cobra's error for flags that exclude each other.
var exclusive = lazy.Regexp(`^if any flags in the group .* none of the others can be; \[(.+)\] were all set$`)

// forgotten returns an error where cobra printed the help because it found no command, though
// the user did not ask for it.
func forgotten(root, command *cobra.Command) error {
	if command.Name() == "help" {
		if _, _, err := root.Find(command.Flags().Args()); err != nil {
			return console.Usage(fmt.Errorf("%w; the commands are listed above", err))
		}
	}
	flags := root.Flags()
	if command == root && flags.Changed("config") && !flags.Changed("help") && !flags.Changed("version") {
		files, _ := flags.GetStringArray("config")
		return console.Usage(fmt.Errorf("no command was given; --config takes a file, here %q: write the file, then a command", files[len(files)-1]))
	}
	return nil
}

package adapter

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcp-metarouter/metarouter/internal/builtin"
	"github.com/mcp-metarouter/metarouter/internal/process"
	"github.com/mcp-metarouter/metarouter/internal/secret"
)

// helper is the first argument of a program that is a helper; see [Embed].
const helper = "metarouter-helper"

// Embed returns the options with the program itself as the router's helper: as its guard, which kills
// the servers if the program is killed; as the reporter for npx; and as the bundled servers. No other
// program need be installed then.
//
// It must be called before main does anything else. The router starts the program again for each of
// these purposes, and in such a process Embed does the work and exits:
//
//	func main() {
//		options := adapter.Embed(adapter.Options{})
//		…
//		router, err := adapter.Open(ctx, options, ".mcp.json")
//
// Without a guard, Close ends all servers, too. But a program that ends without Close, be it killed,
// interrupted or by [os.Exit], may leave servers behind that do not end with their stdin.
func Embed(o Options) Options {
	process.Open(os.Args)
	if os.Getenv(process.ReportVariable) != "" { // npx runs this program as its shell
		exit(process.Report(os.Stdout, os.Args[1:]))
	}
	if len(os.Args) > 1 && os.Args[1] == helper {
		exit(help(os.Args[2:]))
	}
	exe, err := os.Executable()
	if err != nil {
		return o
	}
	o.Guard, o.Reporter = []string{exe, helper, "guard"}, exe
	o.Bundled = []string{exe, helper, "builtin"}
	return o
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// help is the main function of a helper.
func help(args []string) error {
	switch {
	case len(args) > 1 && args[0] == "builtin":
		s, err := builtin.New(args[1], args[2:])
		if err != nil {
			return err
		}
		return s.Run(context.Background(), &mcp.StdioTransport{})
	case len(args) == 1 && args[0] == "guard":
		secret.HideProcess()
		process.RunGuard(os.Stdin)
		return nil
	}
	return errors.New("this program was started as a helper of metarouter, for nothing that it knows")
}

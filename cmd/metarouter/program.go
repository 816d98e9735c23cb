package main

import (
	"context"
	"fmt"
	"os"
	"runtime/debug"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/console"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/web"
	"github.com/mcp-metarouter/metarouter/internal/builtin"
	"github.com/mcp-metarouter/metarouter/internal/process"
)

// released is the version of a released program; the linker sets it.
var released string

// version is the version of this program: of the release, else of the module
// that 'go install' built, else the next one.
var version = programVersion()

func programVersion() string {
	if released != "" {
		return released
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	return "0.1.0-dev"
}

func newVersionCommand(out *console.Console) *cobra.Command {
	return newCommand("version", noArguments, func(context.Context, []string) error {
		_, err := fmt.Fprintln(out.Out, "metarouter", version)
		return err
	})
}

// newHealthCommand returns the health check of containers, which may have no other HTTP
// client.
func newHealthCommand(out *console.Console) *cobra.Command {
	cmd := newCommand("health", cobra.MaximumNArgs(1), func(ctx context.Context, args []string) error {
		return web.CheckHealth(ctx, append(args, "http://127.0.0.1:8787/health")[0], out.Out)
	})
	cmd.Hidden = true
	return cmd
}

// newManCommand returns the command that writes the manual of root, for packages of the
// program.
func newManCommand(root *cobra.Command) *cobra.Command {
	return newCommand("man", arguments(1, 1, "name one folder"),
		func(_ context.Context, args []string) error { return writeManual(root, args[0]) })
}

// writeManual writes the pages of root and its subcommands. SOURCE_DATE_EPOCH is their date, so that builds can be repeated.
func writeManual(root *cobra.Command, folder string) error {
	if err := os.MkdirAll(folder, 0o777); err != nil {
		return err
	}
	root.PersistentFlags().Lookup("data").DefValue = "metarouter in the user's cache folder" // not of the user who builds the package
	root.DisableAutoGenTag = true
	return doc.GenManTree(root, &doc.GenManHeader{Title: "METAROUTER", Section: "1", Source: "metarouter " + root.Version}, folder)
}

func newBuiltinCommand() *cobra.Command {
	return newCommand("builtin", arguments(1, -1, "name the server: "+strings.Join(builtin.Names(), " or ")), func(ctx context.Context, args []string) error {
		s, err := builtin.New(args[0], args[1:])
		if err != nil {
			return console.Usage(err)
		}
		return s.Run(ctx, &mcp.StdioTransport{})
	})
}

// newGuardCommand returns the command by which the router starts its process guard. It is
// not for people.
func newGuardCommand() *cobra.Command {
	cmd := newCommand("guard", cobra.ArbitraryArgs, func(context.Context, []string) error {
		process.RunGuard(os.Stdin)
		return nil
	})
	cmd.Hidden, cmd.DisableFlagParsing = true, true
	return cmd
}

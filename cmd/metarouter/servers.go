package main

import (
	"context"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/mcp-metarouter/metarouter/adapter"
	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/daemon"
)

func (a *app) servers() *cobra.Command {
	var standalone bool
	cmd := a.jsonFlag(leaf("servers", "Show every server's state",
		`  metarouter servers
  metarouter servers --json`,
		cobra.NoArgs, func(ctx context.Context, _ []string) error {
			c, _, err := a.locate() // asking starts nothing, and needs no trust
			if err != nil {
				return err
			}
			if !standalone {
				if all, ok := daemon.Ask(a.data, c.Files).Servers(ctx); ok {
					return a.printServers(all)
				}
			}
			if c, err = a.load(ctx); err != nil {
				return err
			}
			return a.with(ctx, c, func(ctx context.Context, r *adapter.Router) error {
				// No router runs: start each server to see whether it can.
				a.waiting(r, func() { r.Try(ctx) })
				if ctx.Err() != nil {
					return errInterrupted
				}
				return a.printServers(daemon.Report(r.Servers()))
			})
		}))
	cmd.Flags().BoolVar(&standalone, "standalone", false, "do not ask a running router")
	return cmd
}

func (a *app) printServers(all []daemon.Server) error {
	if a.json {
		return a.printJSON(all)
	}
	return a.table(func(w *tabwriter.Writer) {
		fmt.Fprintln(w, "SERVER\tSTATE\tTOOLS\tPROTOCOL\tPID\tRESTARTS\tLAST ERROR")
		for _, s := range all {
			fmt.Fprintf(w, "%s\t%s\t%d\t%s\t%d\t%d\t%s\n", s.Name, s.State, s.Tools, s.ProtocolVersion, s.PID, s.Restarts, s.LastError)
		}
	})
}

func (a *app) restart() *cobra.Command {
	return leaf("restart NAME", "Restart a server of the running router, now",
		`  metarouter restart playwright`,
		cobra.ExactArgs(1), func(ctx context.Context, args []string) error {
			c, err := a.load(ctx)
			if err != nil {
				return err
			}
			entry, err := entryOf(c, args[0])
			if err != nil {
				return err
			}
			bounded, cancel := context.WithTimeout(ctx, entry.StartTimeout+10*time.Second)
			defer cancel()
			if s, ok, err := daemon.Ask(a.data, c.Files).Restart(bounded, entry.Name); ok {
				if err != nil {
					return err
				}
				return a.printServers([]daemon.Server{s})
			}
			fmt.Fprintln(a.stderr, "no router runs with this configuration; starting the server once to see whether it can")
			c.Servers = []config.Server{entry}
			return a.with(ctx, c, func(ctx context.Context, r *adapter.Router) error {
				if err := a.await(ctx, r, entry.Name); err != nil {
					return err
				}
				return a.printServers(daemon.Report(r.Servers()))
			})
		})
}

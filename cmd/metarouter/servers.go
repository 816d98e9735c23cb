package main

import (
	"context"
	"fmt"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/mcp-metarouter/metarouter/adapter"
	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/server"
)

func (a *app) servers() *cobra.Command {
	return a.jsonFlag(leaf("servers", "Show every server's state",
		`  metarouter servers
  metarouter servers --json`,
		cobra.NoArgs, func(ctx context.Context, _ []string) error {
			if a.router != nil {
				return a.printServers(a.router.Servers())
			}
			c, _, err := a.locate() // asking starts nothing, and needs no trust
			if err != nil {
				return err
			}
			if done, err := a.ask(ctx, c, false); done {
				return err
			}
			if c, err = a.load(ctx); err != nil {
				return err
			}
			return a.alone(ctx, c, func(ctx context.Context, r *adapter.Router) error {
				a.waiting(r, func() { r.Try(ctx) }) // start each server to see whether it can
				if ctx.Err() != nil {
					return errInterrupted
				}
				return a.printServers(r.Servers())
			})
		}))
}

func (a *app) printServers(all []adapter.ServerInfo) error {
	if a.json {
		return a.printJSON(server.ServerRows(all))
	}
	return a.table(func(w *tabwriter.Writer) {
		fmt.Fprintln(w, "SERVER\tSTATE\tTOOLS\tPROTOCOL\tPID\tRESTARTS\tLAST ERROR")
		for _, s := range all {
			fmt.Fprintf(w, "%s\t%s\t%d\t%s\t%d\t%d\t%s\n", s.Name, s.State, s.Tools, s.ProtocolVersion, s.PID, s.Restarts, s.LastError)
		}
	})
}

func (a *app) printServer(r *adapter.Router, name string) error {
	return a.printServers(slices.DeleteFunc(r.Servers(), func(s adapter.ServerInfo) bool { return s.Name != name }))
}

func (a *app) restart() *cobra.Command {
	return leaf("restart NAME", "Restart a server of the running routers, now",
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
			if a.router != nil {
				if err := a.router.Restart(bounded, entry.Name); err != nil {
					return err
				}
				return a.printServer(a.router, entry.Name)
			}
			if done, err := a.ask(bounded, c, true); done {
				return err
			}
			fmt.Fprintln(a.stderr, "no router runs with this configuration; starting the server once to see whether it can")
			c.Servers = []config.Server{entry}
			return a.alone(bounded, c, func(ctx context.Context, r *adapter.Router) error {
				if err := a.await(ctx, r, entry.Name); err != nil {
					return err
				}
				return a.printServer(r, entry.Name)
			})
		})
}

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync/atomic"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/mcp-metarouter/metarouter/adapter"
	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/server"
	"github.com/mcp-metarouter/metarouter/supervisor"
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
			if done, err := a.askServers(ctx, c); done {
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
	if isTerminal(a.streams[1]) {
		return a.printRows(rowsOf(all))
	}
	return a.table(func(w *tabwriter.Writer) {
		fmt.Fprintln(w, "SERVER\tSTATE\tTOOLS\tPROTOCOL\tPID\tRESTARTS\tLAST ERROR")
		for _, s := range all {
			fmt.Fprintf(w, "%s\t%s\t%d\t%s\t%d\t%d\t%s\n", s.Name, s.State, s.Tools, s.ProtocolVersion, s.PID, s.Restarts, s.LastError)
		}
	})
}

// pollEvery is how often a running router is asked again whose servers are starting.
const pollEvery = 300 * time.Millisecond

// askServers has a running router say how its servers are. A person at a terminal is
// shown how they start.
func (a *app) askServers(ctx context.Context, c config.Config) (done bool, err error) {
	if a.json || !isTerminal(a.streams[1]) {
		return a.ask(ctx, c, false)
	}
	var rows []row
	poll := func() bool {
		var all []server.ServerRow
		o, answered, failed := a.request(ctx, c, append(slices.Clone(a.args), "--json"), false)
		if done, err = answered, failed; err != nil || !done || json.Unmarshal(o.Stdout, &all) != nil {
			return false
		}
		next := make([]row, len(all))
		for i, s := range all {
			next[i] = row{ServerRow: s}
		}
		rows = next
		return slices.ContainsFunc(rows, func(s row) bool { return s.State == string(supervisor.Starting) })
	}
	if poll() {
		var shown atomic.Pointer[[]row]
		shown.Store(&rows)
		a.showing(func() {
			for starting := true; starting; starting = poll() {
				select {
				case <-time.After(pollEvery):
				case <-ctx.Done():
					return
				}
				shown.Store(new(rows))
			}
		}, func() []row { return *shown.Load() })
	}
	switch {
	case ctx.Err() != nil:
		return true, errInterrupted
	case err != nil || !done:
		return done, err
	}
	return true, a.printRows(rows)
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

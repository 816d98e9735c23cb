package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/mcp-metarouter/metarouter/adapter"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/progress"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/terminal"
	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/status"
	"github.com/mcp-metarouter/metarouter/server"
)

func newServersCommand(env *environment) *cobra.Command {
	cmd := newCommand("servers", "Show the state of every server; if no router runs, start the servers for this command and stop them again",
		`  metarouter servers
  metarouter servers --json`,
		noArguments, func(ctx context.Context, _ []string) error { return runServers(ctx, env) })
	addJSONFlag(env, cmd)
	return cmd
}

func runServers(ctx context.Context, env *environment) error {
	if env.running != nil {
		return printServers(env, env.running.router.Servers())
	}
	c, _, err := locateConfig(env) // to ask a router starts nothing, and needs no trust
	if err != nil {
		return err
	}
	if done, err := askRunningServers(ctx, env, c); done {
		return err
	}
	if c, err = loadConfig(ctx, env); err != nil {
		return err
	}
	return withOwnRouter(ctx, env, c, func(ctx context.Context, r *adapter.Parts) error {
		progress.ShowServers(env.stderr, r, func() { r.Try(ctx) })
		if ctx.Err() != nil {
			return errInterrupted
		}
		return printServers(env, r.Servers())
	})
}

func printServers(env *environment, all []adapter.ServerInfo) error {
	if env.json {
		return env.printJSON(server.ServerRows(all))
	}
	if isTerminal(env.streams[1]) {
		return printServerRows(env, progress.RowsOf(all))
	}
	return env.printTable(func(t table) {
		t.row("SERVER", "STATE", "TOOLS", "PROTOCOL", "PID", "RESTARTS", "LAST ERROR")
		for _, s := range all {
			t.row(s.Name, s.State, s.Tools, s.ProtocolVersion, s.PID, s.Restarts, s.LastError)
		}
	})
}

// printServerRows prints the table of servers for a person at a terminal.
func printServerRows(env *environment, rows []progress.Row) error {
	columns, colours := env.page()
	_, err := fmt.Fprint(env.stdout, terminal.Lines(progress.Table(rows, columns, colours)))
	return err
}

// pollInterval is the time between two questions to a running router whose servers are
// starting.
const pollInterval = 300 * time.Millisecond

// askRunningServers asks a running router for its servers. On a terminal it shows how
// they start, until none is starting any more.
func askRunningServers(ctx context.Context, env *environment, c config.Config) (done bool, err error) {
	if env.json || !isTerminal(env.streams[1]) {
		return askRunningRouter(ctx, env, c, false)
	}
	var rows []progress.Row
	poll := func() (starting bool) {
		var all []server.ServerRow
		o, answered, failed := requestOutcome(ctx, env, c, append(slices.Clone(env.args), "--json"), false)
		if done, err = answered, failed; err != nil || !done || json.Unmarshal(o.Stdout, &all) != nil {
			return false
		}
		next := make([]progress.Row, len(all))
		for i, s := range all {
			next[i] = progress.Row{ServerRow: s}
		}
		rows = next
		return slices.ContainsFunc(rows, func(s progress.Row) bool { return s.State == string(status.Starting) })
	}
	if poll() {
		var shown atomic.Pointer[[]progress.Row]
		shown.Store(&rows)
		progress.Show(env.stderr, func() []progress.Row { return *shown.Load() }, func() {
			for starting := true; starting; starting = poll() {
				select {
				case <-time.After(pollInterval):
				case <-ctx.Done():
					return
				}
				shown.Store(new(rows))
			}
		})
	}
	switch {
	case ctx.Err() != nil:
		return true, errInterrupted
	case err != nil || !done:
		return done, err
	}
	return true, printServerRows(env, rows)
}

func newRestartCommand(env *environment) *cobra.Command {
	return newCommand("restart NAME", "Restart a server in every running router that has this configuration",
		`  metarouter restart playwright`,
		arguments(1, 1, "name one server; 'metarouter servers' lists all"), func(ctx context.Context, args []string) error { return runRestart(ctx, env, args[0]) })
}

func runRestart(ctx context.Context, env *environment, name string) error {
	c, err := loadConfig(ctx, env)
	if err != nil {
		return err
	}
	entry, err := findEntry(c, name)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, entry.StartTimeout+10*time.Second)
	defer cancel()
	printServer := func(r *adapter.Parts) error {
		return printServers(env, slices.DeleteFunc(r.Servers(), func(s adapter.ServerInfo) bool { return s.Name != name }))
	}
	if env.running != nil {
		if err := env.running.router.Restart(ctx, name); err != nil {
			return err
		}
		return printServer(env.running.router)
	}
	if done, err := askRunningRouter(ctx, env, c, true); done {
		return err
	}
	if entry.Disabled {
		return fmt.Errorf("server %q is disabled: take \"disabled\": true out of its entry in %s", name, strings.Join(c.Files, ", "))
	}
	if env.standalone {
		env.note("--standalone: running routers are left alone; starting a second copy of %q to see whether it can start", name)
	} else {
		env.note("no router runs with this configuration; starting %q once to see whether it can start", name)
	}
	c.Servers = []config.Server{entry}
	return withOwnRouter(ctx, env, c, func(ctx context.Context, r *adapter.Parts) error {
		if err := awaitServer(ctx, env, r, name); err != nil {
			return err
		}
		return printServer(r)
	})
}

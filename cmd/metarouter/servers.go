package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/mcp-metarouter/metarouter/adapter"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/configfile"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/console"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/exit"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/oneshot"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/progress"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/terminal"
	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/status"
	"github.com/mcp-metarouter/metarouter/server"
)

func newServersCommand(env *environment) *cobra.Command {
	var watch bool
	cmd := newCommand("servers [SERVER]", "Show the state of every server, or all about one",
		`  metarouter servers
  metarouter servers playwright
  metarouter servers --watch`,
		arguments(0, 1, "name one server at most"), func(ctx context.Context, args []string) error {
			switch {
			case watch && len(args) > 0:
				return exit.Usage(errors.New("--watch shows all servers; leave the name out"))
			case watch:
				return runWatch(ctx, env)
			case len(args) > 0:
				return runServer(ctx, env, args[0])
			}
			return runServers(ctx, env)
		})
	cmd.Long = `Shows the state of every server, or all about one: its whole last error and its last
lines on stderr, too. If no router runs, it starts the servers and stops them again. In a
cluster, a router that has just started waits up to 8 s for the servers of other nodes.`
	addJSONFlag(cmd, env.Console)
	addNamedProfileFlag(env, cmd, "Show only the servers that the `profile` of this name allows. (default all servers)")
	cmd.Flags().BoolVar(&watch, "watch", false, "Show the servers until Ctrl-C: a terminal shows their states as they change; a file or a pipe gets a line for each change, with --json an object in a line. By default they are shown once.")
	return cmd
}

func runServers(ctx context.Context, env *environment) error {
	if env.running != nil {
		noteEdit(env)
		if err := checkProfile(env.running.router.Config(), env.profile); err != nil {
			return err
		}
		oneshot.NoteMissing(env.Console, env.running.router.AwaitNodes(ctx))
		return printServers(env, namedScope(env.running.router, env.profile).Servers())
	}
	c, named, err := env.files.Locate()
	if configfile.IsMistake(err) {
		if done, asked := askRunningServers(ctx, env, c); done {
			return asked
		}
	}
	if err != nil {
		return err
	}
	var distrust error // to ask a router starts nothing, and needs no trust
	if !named && !env.JSON {
		if c, distrust = env.files.RequireTrust(ctx, c); errors.Is(distrust, exit.Interrupted) {
			return distrust
		}
	}
	if done, err := askRunningServers(ctx, env, c); done {
		return err
	}
	if !named && env.JSON {
		c, distrust = env.files.RequireTrust(ctx, c)
	}
	if distrust != nil {
		return distrust
	}
	if err := checkProfile(c, env.profile); err != nil {
		return err
	}
	return env.local.Run(ctx, c, func(ctx context.Context, r *adapter.Parts) error {
		scope := namedScope(r, env.profile)
		if names := namesOf(scope.Servers()); len(names) > 0 || r.Config().Router.Cluster != nil {
			progress.ShowServers(env.Err, scope, func() { r.Try(ctx, names...) })
		}
		if ctx.Err() != nil {
			return exit.Interrupted
		}
		oneshot.NoteMissing(env.Console, r.AwaitNodes(ctx))
		return printServers(env, scope.Servers())
	})
}

func namesOf(servers []adapter.ServerInfo) (names []string) {
	for _, s := range servers {
		names = append(names, s.Name)
	}
	return names
}

func printServers(env *environment, all []adapter.ServerInfo) error {
	if env.JSON {
		return env.PrintJSON(server.ServerRows(all))
	}
	return printServerRows(env, progress.RowsOf(all))
}

// printServerRows prints the table of servers.
func printServerRows(env *environment, rows []progress.Row) error {
	if len(rows) == 0 {
		env.Note("there are no servers yet; add one with 'metarouter add NAME --write -- COMMAND', or copy a client's with 'metarouter import CLIENT --write'")
		return nil
	}
	columns, colours := env.Page()
	lines := progress.Table(rows, columns, 0, colours)
	for _, s := range rows {
		if s.Several != "" {
			lines = append(lines, terminal.Hang(s.Name+" has ", s.Several, columns)...)
		}
	}
	_, err := fmt.Fprint(env.Out, terminal.Lines(lines))
	return err
}

// pollInterval is the time between two questions to a running router whose servers are
// starting.
const pollInterval = 300 * time.Millisecond

// askRunningServers asks a running router for its servers. On a terminal it shows how
// they start, until none is starting any more.
func askRunningServers(ctx context.Context, env *environment, c config.Config) (done bool, err error) {
	if env.JSON || !console.IsTerminal(env.Streams[1]) {
		return askRunningRouter(ctx, env, c, false)
	}
	var rows []progress.Row
	var notes []byte
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
		rows, notes = next, o.Stderr
		return slices.ContainsFunc(rows, func(s progress.Row) bool { return s.State == string(status.Starting) })
	}
	if poll() {
		var shown atomic.Pointer[[]progress.Row]
		shown.Store(&rows)
		progress.Show(env.Err, func() []progress.Row { return *shown.Load() }, func() {
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
		return true, exit.Interrupted
	case err != nil || !done:
		return done, err
	}
	env.Err.Write(notes)
	return true, printServerRows(env, rows)
}

func newRestartCommand(env *environment) *cobra.Command {
	return newCommand("restart NAME", "Restart a server in every router with this configuration",
		`  metarouter restart playwright`,
		arguments(1, 1, "name one server; 'metarouter servers' lists all"), func(ctx context.Context, args []string) error { return runRestart(ctx, env, args[0]) })
}

func runRestart(ctx context.Context, env *environment, name string) error {
	c, done, err := loadOrAsk(ctx, env, true)
	if err != nil || done {
		return err
	}
	if err := isInWaitingEdit(env, name); err != nil {
		return err
	}
	entry, err := configfile.Server(c, name)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, entry.StartTimeout+10*time.Second)
	defer cancel()
	printServer := func(r *adapter.Parts) error {
		return printServers(env, slices.DeleteFunc(r.Servers(), func(s adapter.ServerInfo) bool { return s.Name != name }))
	}
	if env.running != nil {
		err := env.running.router.Restart(ctx, name)
		recordHere(env.running.router, name, "restart", err)
		if err != nil {
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
		env.Note("--standalone: running routers are left alone; starting a second copy of %q to see whether it can start", name)
	} else {
		env.Note("no router runs with this configuration; starting %q once to see whether it can start", name)
	}
	c.Servers = []config.Server{entry}
	return env.local.Run(ctx, c, func(ctx context.Context, r *adapter.Parts) error {
		if err := oneshot.AwaitServer(ctx, env.Console, r, name); err != nil {
			return err
		}
		return printServer(r)
	})
}

package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/admin"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/configfile"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/console"
	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/commandline"
	"github.com/mcp-metarouter/metarouter/internal/exposure"
	"github.com/mcp-metarouter/metarouter/internal/plain"
	"github.com/mcp-metarouter/metarouter/internal/signal"
	"github.com/mcp-metarouter/metarouter/internal/status"
	"github.com/mcp-metarouter/metarouter/internal/wire"
)

// Servers prints the state of all servers.
func Servers(ctx context.Context, e *Env) error {
	return show(ctx, e, need{peek: e.JSON}, "/dashboard/servers", nil, func(answer admin.Servers) error {
		return printServers(e, answer.Servers)
	})
}

func printServers(e *Env, servers []exposure.ServerRow) error {
	if e.JSON {
		return e.PrintJSON(servers)
	}
	if len(servers) == 0 {
		e.Note("there are no servers yet; add one with 'metarouter add NAME --write -- COMMAND', or copy a client's with 'metarouter import CLIENT --write'")
		return nil
	}
	rows, several := []console.Row{console.Titles("SERVER", "STATE", ">TOOLS", "?PROTOCOL", "?>PID", "?>RESTARTS", "NOTE")}, []exposure.ServerRow{}
	for _, s := range servers {
		row := console.Texts(s.Name, s.State, s.Tools, s.ProtocolVersion, "", s.Restarts, cmp.Or(s.Problem, s.LastError))
		if s.PID > 0 {
			row[4].Text = strconv.Itoa(s.PID)
		}
		row[1].Colour, row[6].Colour = stateColours[status.State(s.State)], console.Faint
		rows = append(rows, row)
		if s.Several != "" {
			several = append(several, s)
		}
	}
	err := e.PrintRows(rows, nil)
	for _, s := range several {
		e.SayBroken(s.Name+" has ", s.Several)
	}
	return err
}

var stateColours = map[status.State]console.Colour{
	status.Starting: console.Yellow, status.Restarting: console.Yellow, status.Ready: console.Green,
	status.Failed: console.Red, status.NeedsAuth: console.Red, status.Misconfigured: console.Red,
	status.Disabled: console.Faint, status.Stopping: console.Faint, status.Stopped: console.Faint, status.Self: console.Faint,
}

// Restart restarts a server in every router with the configuration, and prints its state. If no router runs,
// it starts the server once.
func Restart(ctx context.Context, e *Env, name string) error {
	alone := func(c *config.Config) error {
		entry, err := configfile.Server(*c, name)
		if err != nil {
			return err
		}
		if entry.Disabled {
			return fmt.Errorf("server %q is disabled: take \"disabled\": true out of its entry in %s", name, strings.Join(c.Files, ", "))
		}
		e.Note("no router runs with this configuration, or --standalone leaves it alone; starting %q once to see whether it can start", name)
		c.Servers = []config.Server{entry}
		return nil
	}
	return show(ctx, e, need{all: true, alone: alone}, serverPath(name)+"/restart", struct{}{}, func(answer admin.Servers) error {
		return printServers(e, answer.Servers)
	})
}

func serverPath(name string) string { return "/dashboard/servers/" + url.PathEscape(name) }

// Server prints the details of one server, one in a line.
func Server(ctx context.Context, e *Env, name string) error {
	return show(ctx, e, need{peek: true}, serverPath(name), nil, func(s admin.ServerDetails) error {
		if e.JSON {
			return e.PrintJSON(s)
		}
		e.Say("%s", s.Name)
		for _, fact := range factsOf(s, time.Now()) {
			if fact[1] != "" {
				e.SayBroken(fmt.Sprintf("  %-12s", fact[0]), e.Files.Advise(fact[1]))
			}
		}
		if len(s.Stderr) > 0 {
			e.Say("  its last lines on stderr:")
		}
		for _, line := range s.Stderr {
			e.SayBroken("    | ", line)
		}
		return nil
	})
}

// loginFacts returns facts about the login at a server.
func loginFacts(s admin.ServerDetails, now time.Time) (login, scopes, needs string) {
	l := s.Login
	if l == nil {
		return "", "", ""
	}
	if l.LoggedIn {
		login = "logged in"
		if l.Issuer != "" {
			login += " at " + l.Issuer
		}
		switch {
		case l.Renews:
			login += "; renews itself"
		case l.Expires.IsZero():
			login += "; valid until the server refuses it"
		default:
			login += "; valid " + console.Until(l.Expires, now) + ", and does not renew itself"
		}
	}
	if l.Needed != "" && s.State != string(status.NeedsAuth) { // else its last error says so
		needs = "a login, since " + l.Needed + "; run: metarouter login " + commandline.Quote(s.Name)
	}
	return login, strings.Join(l.Scopes, " "), needs
}

// factsOf returns the facts about a server, each with its name. Some are "".
func factsOf(s admin.ServerDetails, now time.Time) [][2]string {
	when := func(condition bool, format string, args ...any) string {
		if !condition {
			return ""
		}
		return fmt.Sprintf(format, args...)
	}
	login, scopes, needs := loginFacts(s, now)
	return [][2]string{
		{"state", s.State + when(!s.Since.IsZero(), ", for %s", console.Elapsed(now.Sub(s.Since))) + when(s.ByHand, ", by hand")},
		{"waits for", s.Doing},
		{"tools", fmt.Sprint(s.Tools)},
		{"transport", s.Transport},
		{"node", s.Node},
		{"protocol", s.ProtocolVersion + when(s.Era == "legacy", " (older revision)")},
		{"login", login},
		{"scopes", scopes},
		{"needs", needs},
		{"package", s.Package},
		{"processes", s.Several},
		{"process", when(s.Several == "" && s.PID > 0, "PID %d", s.PID)},
		{"restarts", fmt.Sprint(s.Restarts)},
		{"start", when(s.TookMS > 0, "took %.1f s", float64(s.TookMS)/1000) + when(s.TookMS > 0 && s.FetchingMS > 0, ", %.1f s of them to fetch its package", float64(s.FetchingMS)/1000)},
		{"calls", when(s.InFlight+s.Waiting > 0, "%d under way, %d waiting", s.InFlight, s.Waiting)},
		{"edit", when(s.Reverted, "the edited entry does not start, so the one before it runs")},
		{"lists", s.Outdated},
		{"stdout", when(s.StrayLines > 0, "%d lines on it that were no messages; 'metarouter doctor' says more", s.StrayLines)},
		{"repairs", s.Repairs},
		{"last error", s.LastError},
		{"", when(s.LastError != "" && s.PID == 0 && (s.Login == nil || s.Login.Needed == ""), "'metarouter doctor' says what to do")},
	}
}

const (
	// watchEvery is the time between two looks of --watch at the servers.
	watchEvery = 500 * time.Millisecond

	// watchAnswer is how long a running router has to say how its servers are.
	watchAnswer = 10 * time.Second
)

// Watch shows the servers until ctx ends, or its reader has left. They belong to the running router, and to
// the next one if that ends. If no router runs at first, they are started for that.
func Watch(ctx context.Context, e *Env) error {
	watching := false
	err := e.ask(ctx, need{peek: true}, func(ctx context.Context, c *apiClient) error {
		watching, c.watching = true, true
		ctx, cancel := context.WithCancel(ctx)
		var starting sync.WaitGroup
		defer starting.Wait()
		defer cancel()
		if c.alone != nil {
			if !e.Standalone {
				e.Note("no router runs with this configuration; starting the servers until Ctrl-C")
			}
			starting.Go(func() { c.alone.Try(ctx) })
		}
		shown, noted := make(map[string]exposure.ServerRow), ""
		for ctx.Err() == nil && c.HasReader() {
			rows, note := c.look(ctx)
			if note != noted && note != "" && ctx.Err() == nil {
				c.Note("%s", note)
			}
			noted = note
			if err := printWatched(e, shown, rows); err != nil {
				return err
			}
			signal.Within(ctx.Done(), watchEvery)
		}
		return nil
	})
	if watching && errors.Is(err, console.Interrupted) {
		return nil // this is how it ends
	}
	return err
}

// look returns the servers as they are now, and the notes of the router on its configuration, or why
// that is unknown; no servers then. It asks the next router if one has ended.
func (c *apiClient) look(ctx context.Context) (rows []exposure.ServerRow, note string) {
	ctx, cancel := context.WithTimeout(ctx, watchAnswer)
	defer cancel()
	if c.alone == nil {
		if c.routers = c.running(ctx, c.config); len(c.routers) == 0 {
			return nil, "no router runs any more; waiting for the next one"
		}
	}
	var answer admin.Servers
	notes, err := c.exchange(ctx, c.routers[0], "/dashboard/servers", nil, &answer)
	if err != nil {
		return nil, err.Error()
	}
	return answer.Servers, strings.Join(notes, "\n")
}

// printWatched prints a line for each server that is not as the last line about it said, in shown; nil rows are unknown.
// The text of an error, which may count the seconds of a start, and counts of repairs are no change.
func printWatched(e *Env, shown map[string]exposure.ServerRow, rows []exposure.ServerRow) error {
	if rows == nil {
		return nil
	}
	gone := maps.Clone(shown)
	for _, s := range rows {
		delete(gone, s.Name)
		if s.State == string(status.Starting) {
			s.LastError = "" // it says how long the start has taken so far
		}
		now := s
		now.LastError, now.Problem, now.Repairs = "", "", ""
		if last, ok := shown[s.Name]; ok && last == now {
			continue
		}
		shown[s.Name] = now
		if err := printState(e, s); err != nil {
			return err
		}
	}
	for name := range gone {
		delete(shown, name)
		if err := printState(e, exposure.ServerRow{Name: name, State: "removed"}); err != nil {
			return err
		}
	}
	return nil
}

// printState prints a server as a line.
func printState(e *Env, s exposure.ServerRow) error {
	if e.JSON {
		_, err := fmt.Fprintf(plain.NewEscaper(e.Raw), "%s\n", wire.Marshal(struct {
			Time time.Time `json:"time"`
			exposure.ServerRow
		}{time.Now(), s}))
		return err
	}
	line := fmt.Sprintf("%s %s: %s", time.Now().Format(time.TimeOnly), s.Name, s.State)
	if s.Tools > 0 {
		line += ", " + console.Counted(s.Tools, "tool")
	}
	if s.Restarts > 0 {
		line += ", " + console.Counted(s.Restarts, "restart")
	}
	if s.PID > 0 {
		line += fmt.Sprintf(", PID %d", s.PID)
	}
	if s.LastError != "" {
		line += "; last error: " + console.Cut(plain.Line(s.LastError), admin.MaxReason)
	}
	_, err := fmt.Fprintln(e.Out, plain.Line(line))
	return err
}

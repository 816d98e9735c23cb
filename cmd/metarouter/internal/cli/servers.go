package cli

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/admin"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/configfile"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/console"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/service"
	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/commandline"
	"github.com/mcp-metarouter/metarouter/internal/exposure"
	"github.com/mcp-metarouter/metarouter/internal/status"
)

// Servers prints the state of all servers.
func Servers(ctx context.Context, e *Env) error {
	return show(ctx, e, need{peek: e.JSON, several: true}, "/dashboard/servers", e.parameters("wait", "1"), func(answer admin.Servers) error {
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
	columns, colours := e.Page()
	lines := service.ServersTable(servers, columns, colours)
	for _, s := range servers {
		if s.Several != "" {
			lines = append(lines, console.Hang(s.Name+" has ", s.Several, columns)...)
		}
	}
	_, err := fmt.Fprint(e.Out, console.Lines(lines))
	return err
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
		if e.Standalone {
			e.Note("--standalone: running routers are left alone; starting a second copy of %q to see whether it can start", name)
		} else {
			e.Note("no router runs with this configuration; starting %q once to see whether it can start", name)
		}
		c.Servers = []config.Server{entry}
		return nil
	}
	return e.ask(ctx, need{all: true, alone: alone}, func(ctx context.Context, c *apiClient) error {
		var answer admin.Servers
		if err := c.post(ctx, serverPath(name)+"/restart", nil, struct{}{}, &answer); err != nil {
			return err
		}
		return printServers(e, answer.Servers)
	})
}

func serverPath(name string) string { return "/dashboard/servers/" + url.PathEscape(name) }

// Server prints the details of one server, one in a line.
func Server(ctx context.Context, e *Env, name string) error {
	return show(ctx, e, need{peek: true, several: true}, serverPath(name), nil, func(s admin.ServerDetails) error {
		if e.JSON {
			return e.PrintJSON(s)
		}
		e.Say("%s", s.Name)
		for _, fact := range factsOf(s, time.Now()) {
			e.SayBroken(fmt.Sprintf("  %-12s", fact[0]), e.Files.Advise(fact[1]))
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

func loginFacts(s admin.ServerDetails, now time.Time) (facts [][2]string) {
	l := s.Login
	if l == nil {
		return nil
	}
	if l.LoggedIn {
		text := "logged in"
		if l.Issuer != "" {
			text += " at " + l.Issuer
		}
		switch {
		case l.Renews:
			text += "; renews itself"
		case l.Expires.IsZero():
			text += "; valid until the server refuses it"
		default:
			text += "; valid " + console.Until(l.Expires, now) + ", and does not renew itself"
		}
		facts = append(facts, [2]string{"login", text})
		if len(l.Scopes) > 0 {
			facts = append(facts, [2]string{"scopes", strings.Join(l.Scopes, " ")})
		}
	}
	if l.Needed != "" && s.State != string(status.NeedsAuth) { // else its last error says so
		facts = append(facts, [2]string{"needs", "a login, since " + l.Needed.Text() + "; run: metarouter login " + commandline.Quote(s.Name)})
	}
	return facts
}

func factsOf(s admin.ServerDetails, now time.Time) (facts [][2]string) {
	add := func(name, value string) {
		if value != "" {
			facts = append(facts, [2]string{name, value})
		}
	}
	state := s.State
	if !s.Since.IsZero() {
		state += ", for " + console.Elapsed(now.Sub(s.Since))
	}
	if s.ByHand {
		state += ", by hand"
	}
	add("state", state)
	add("waits for", s.Doing)
	add("tools", fmt.Sprint(s.Tools))
	add("transport", s.Transport)
	add("node", s.Node)
	if s.ProtocolVersion != "" {
		revision := s.ProtocolVersion
		if s.Era == "legacy" {
			revision += " (older revision)"
		}
		add("protocol", revision)
	}
	facts = append(facts, loginFacts(s, now)...)
	add("package", s.Package)
	if s.Several != "" {
		add("processes", s.Several)
	} else if s.PID > 0 {
		add("process", fmt.Sprintf("PID %d", s.PID))
	}
	add("restarts", fmt.Sprint(s.Restarts))
	if took := time.Duration(s.TookMS) * time.Millisecond; took > 0 {
		start := fmt.Sprintf("took %.1f s", took.Seconds())
		if s.FetchingMS > 0 {
			start += fmt.Sprintf(", %.1f s of them to fetch its package", float64(s.FetchingMS)/1000)
		}
		add("start", start)
	}
	if s.InFlight+s.Waiting > 0 {
		add("calls", fmt.Sprintf("%d under way, %d waiting", s.InFlight, s.Waiting))
	}
	if s.Reverted {
		add("edit", "the edited entry does not start, so the one before it runs")
	}
	add("lists", s.Outdated)
	if s.StrayLines > 0 {
		add("stdout", console.Counted(int(s.StrayLines), "line")+" on it that were no messages; 'metarouter doctor' says more")
	}
	add("repairs", s.Repairs)
	add("last error", s.LastError)
	if s.LastError != "" && s.PID == 0 && (s.Login == nil || s.Login.Needed == "") {
		add("", "'metarouter doctor' says what to do")
	}
	return facts
}

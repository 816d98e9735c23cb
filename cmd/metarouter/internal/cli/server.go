package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/admin"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/clients"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/console"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/terminal"
	"github.com/mcp-metarouter/metarouter/internal/status"
)

// Server prints all details of one server.
func Server(ctx context.Context, e *Env, name string) error {
	return e.ask(ctx, need{peek: true}, func(ctx context.Context, c *client) error {
		var s admin.ServerDetails
		if err := c.get(ctx, serverPath(name), nil, &s); err != nil {
			return err
		}
		return printServer(e, s)
	})
}

// loginFacts returns what is shown of the login at the server.
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
			text += "; valid " + terminal.Until(l.Expires, now) + ", and does not renew itself"
		}
		facts = append(facts, [2]string{"login", text})
		if len(l.Scopes) > 0 {
			facts = append(facts, [2]string{"scopes", strings.Join(l.Scopes, " ")})
		}
	}
	if l.Needed != "" && s.State != string(status.NeedsAuth) { // else its last error says so
		facts = append(facts, [2]string{"needs", "a login, since " + l.Needed.Text() + "; run: metarouter login " + clients.Word(s.Name)})
	}
	return facts
}

// printServer prints the details of a server, one in a line.
func printServer(e *Env, s admin.ServerDetails) error {
	if e.JSON {
		return e.PrintJSON(s)
	}
	e.Say("%s", s.Name)
	for _, fact := range factsOf(s, time.Now()) {
		e.SayBroken(fmt.Sprintf("  %-12s", fact[0]), fact[1])
	}
	if len(s.Stderr) > 0 {
		e.Say("  its last lines on stderr:")
	}
	for _, line := range s.Stderr {
		e.SayBroken("    | ", line)
	}
	return nil
}

// factsOf returns the names and values that are shown of a server.
func factsOf(s admin.ServerDetails, now time.Time) (facts [][2]string) {
	add := func(name, value string) {
		if value != "" {
			facts = append(facts, [2]string{name, value})
		}
	}
	state := s.State
	if !s.Since.IsZero() {
		state += ", for " + terminal.Elapsed(now.Sub(s.Since))
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
	add("last error", s.LastError)
	if s.LastError != "" && s.PID == 0 && (s.Login == nil || s.Login.Needed == "") {
		add("", "'metarouter doctor' says what to do")
	}
	return facts
}

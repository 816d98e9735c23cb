package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mcp-metarouter/metarouter/adapter"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/clients"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/configfile"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/console"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/exit"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/oneshot"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/terminal"
	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/status"
	"github.com/mcp-metarouter/metarouter/server"
)

// keyringTime is how long the keyring may take to say whether there is a login.
const keyringTime = 10 * time.Second

// A serverDetails is all that 'servers SERVER' says about a server, as JSON.
type serverDetails struct {
	server.ServerRow
	Since      time.Time `json:"since"`             // when it came into its state
	Doing      string    `json:"doing,omitempty"`   // what its start waits for
	TookMS     int64     `json:"took_ms,omitempty"` // its last start that succeeded
	FetchingMS int64     `json:"fetching_ms,omitempty"`
	Package    string    `json:"package,omitempty"`
	InFlight   int       `json:"calls_in_flight"`
	Waiting    int       `json:"calls_waiting"`
	ByHand     bool      `json:"by_hand,omitempty"`  // it was stopped or started by hand
	Reverted   bool      `json:"reverted,omitempty"` // the entry before an edit runs
	Outdated   string    `json:"outdated,omitempty"` // why its changed lists could not be read
	StrayLines int64     `json:"stray_lines,omitempty"`
	Stderr     []string  `json:"stderr"` // its last lines

	Login *loginDetails `json:"login,omitempty"` // nil if there is none and none is known to be needed
}

// A loginDetails is how the login at a server is, as JSON.
type loginDetails struct {
	LoggedIn bool               `json:"logged_in"`
	Issuer   string             `json:"issuer,omitempty"`
	Scopes   []string           `json:"scopes,omitempty"`
	Expires  time.Time          `json:"expires,omitzero"` // of the access token
	Renews   bool               `json:"renews"`           // the router renews it by itself
	Needed   status.LoginReason `json:"needed,omitempty"` // why a person must log in
}

// loginOf returns how the login at a server is, nil if there is nothing to say.
func loginOf(ctx context.Context, r *adapter.Parts, s adapter.ServerInfo) *loginDetails {
	if s.Transport == string(config.Stdio) || s.Node() != "" {
		return nil
	}
	bounded, cancel := context.WithTimeout(ctx, keyringTime) // it may ask the keyring
	defer cancel()
	state, err := r.LoginState(bounded, s.Name)
	if s.Fault != nil && s.State == status.NeedsAuth {
		state.Why = cmp.Or(s.Fault.Login, state.Why)
		state.Issuer = cmp.Or(state.Issuer, s.Fault.Issuer)
	}
	if err != nil || !state.LoggedIn && state.Why == "" {
		return nil // such as an entry with a header of its own
	}
	return &loginDetails{state.LoggedIn, state.Issuer, state.Scopes, state.Expires, state.Renews, state.Why}
}

// facts returns the lines about the login at the server.
func (s serverDetails) loginFacts(now time.Time) (facts [][2]string) {
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

func detailsOf(s adapter.ServerInfo, login *loginDetails) serverDetails {
	return serverDetails{
		ServerRow: server.ServerRows([]adapter.ServerInfo{s})[0], Since: s.Since, Doing: s.Doing, TookMS: s.Took.Milliseconds(), FetchingMS: s.Fetching.Milliseconds(),
		Package: s.Package, InFlight: s.Calls, Waiting: s.Waiting, ByHand: s.ByHand, Reverted: s.Reverted, Outdated: s.Outdated, StrayLines: s.StrayLines,
		Stderr: append([]string{}, s.Stderr...), Login: login,
	}
}

// runServer prints all details of one server. If no router runs, it starts the server for
// that and stops it again.
func runServer(ctx context.Context, env *environment, name string) error {
	show := func(r *adapter.Parts) error {
		if !slices.Contains(namesOf(r.Servers()), name) {
			oneshot.NoteMissing(env.Console, r.AwaitNodes(ctx))
		}
		all := r.Servers()
		i := slices.IndexFunc(all, func(s adapter.ServerInfo) bool { return s.Name == name })
		if i < 0 {
			return exit.Usage(configfile.UnknownName("server", name, namesOf(all)))
		}
		return printServer(env, detailsOf(all[i], loginOf(ctx, r, all[i])))
	}
	if env.running != nil {
		if err := isInWaitingEdit(env, name); err != nil {
			return err
		}
		noteEdit(env)
		return show(env.running.router)
	}
	c, _, err := env.files.Locate() // to ask a router starts nothing, and needs no trust
	if err != nil && !configfile.IsMistake(err) {
		return err
	}
	if done, err := askRunningRouter(ctx, env, c, false); done {
		return err
	}
	if c, err = loadConfig(ctx, env); err != nil {
		return err
	}
	if c.Servers, err = entriesOf(c, name); err != nil {
		return err
	}
	return env.local.Run(ctx, c, func(ctx context.Context, r *adapter.Parts) error {
		_ = oneshot.AwaitServer(ctx, env.Console, r, name) // what is shown says why it failed
		if ctx.Err() != nil {
			return exit.Interrupted
		}
		return show(r)
	})
}

// printServer prints the details of a server, one in a line.
func printServer(env *environment, s serverDetails) error {
	if env.JSON {
		return env.PrintJSON(s)
	}
	env.Say("%s", s.Name)
	for _, fact := range s.facts(time.Now()) {
		env.SayBroken(fmt.Sprintf("  %-12s", fact[0]), fact[1])
	}
	if len(s.Stderr) > 0 {
		env.Say("  its last lines on stderr:")
	}
	for _, line := range s.Stderr {
		env.SayBroken("    | ", line)
	}
	return nil
}

// facts returns the names and values that are shown of a server.
func (s serverDetails) facts(now time.Time) (facts [][2]string) {
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
	facts = append(facts, s.loginFacts(now)...)
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

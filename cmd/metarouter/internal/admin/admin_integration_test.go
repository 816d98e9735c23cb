package admin

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/exposure"
	"github.com/mcp-metarouter/metarouter/internal/status"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/test/expect"
	"github.com/mcp-metarouter/metarouter/test/layer"
	"github.com/mcp-metarouter/metarouter/test/mcptest"
)

// A server is stopped and started from the page, and by it alone.
func TestAct(t *testing.T) {
	layer.Integration(t)
	s := open(t, fake("a", "echo"), fake("b", "pid"))
	next := s.watch()
	next()
	for _, test := range []struct {
		path   string
		status int
		header []string
	}{
		{"/dashboard/servers/nobody/stop", 404, nil},
		{"/dashboard/servers/a/explode", 404, nil},
		{"/dashboard/servers/a/stop", 403, []string{"Origin", "https://evil.example"}},
		{"/dashboard/servers/a/stop", 403, []string{"Sec-Fetch-Site", "same-site"}},
		{"/dashboard/servers/a/stop", 415, []string{"Content-Type", "text/plain"}},
		{"/dashboard/call", 409, nil},
	} {
		var why Refusal
		body := `{"tool":"b:pid","arguments":{}}`
		if strings.HasSuffix(test.path, "call") {
			body = `{"tool":"a:echo","arguments":{}}`
			s.edits <- config.Config{Servers: []config.Server{fake("a", "browser_click"), fake("b", "pid")}}
			until(next, func(u update) bool { return u.Catalog != nil })
			body = `{"tool":"a:browser_click","arguments":{}}`
		}
		if status := s.ask(http.MethodPost, test.path, body, &why, test.header...); status != test.status || why.Error == "" {
			t.Errorf("%s %v: %d %q, want %d", test.path, test.header, status, why.Error, test.status)
		}
	}
	if status := s.ask(http.MethodPost, "/dashboard/servers/a/stop", "{}", nil); status != 200 {
		t.Fatal(status)
	}
	u := until(next, func(u update) bool { return state(u, "a") == "disabled" })
	if !slices.ContainsFunc(u.Servers, func(s ServerDetails) bool { return s.ByHand }) {
		t.Errorf("stopped: %+v", u.Servers)
	}
	if status := s.ask(http.MethodPost, "/dashboard/servers/a/start", "{}", nil); status != 200 {
		t.Fatal(status)
	}
	until(next, func(u update) bool { return state(u, "a") == "ready" })
	expect.Equal(t, s.ask(http.MethodPost, "/dashboard/servers/b/restart", "{}", nil), 200)
}

// A changed definition is shown with its difference until a person has seen it.
func TestChangedTools(t *testing.T) {
	layer.Integration(t)
	s := open(t, fake("a", "echo: Repeats a text"), fake("b", "pid"))
	next := s.watch()
	next()
	changedIn := func(n int) func(u update) bool {
		return func(u update) bool {
			return slices.ContainsFunc(u.Servers, func(s ServerDetails) bool { return s.Name == "a" && s.ChangedTools == n && len(s.Changed) == n })
		}
	}
	s.edits <- config.Config{Servers: []config.Server{fake("a", "echo: Sends a text to me"), fake("b", "pid")}}
	until(next, changedIn(1))
	var whole Tool
	s.ask(http.MethodGet, "/dashboard/tool?id=a:echo", "", &whole)
	if !whole.Changed || fmt.Sprint(whole.Changes) != `[description was "Repeats a text" and is "Sends a text to me"]` {
		t.Errorf("changed: %v, %q", whole.Changed, whole.Changes)
	}
	if status := s.ask(http.MethodPost, "/dashboard/servers/a/seen", "{}", nil, "Origin", "https://evil.example"); status != http.StatusForbidden {
		t.Error("another page may mark changes as seen:", status)
	}
	expect.Equal(t, s.ask(http.MethodPost, "/dashboard/servers/a/seen", "{}", nil), http.StatusOK)
	until(next, changedIn(0))
	whole = Tool{}
	if s.ask(http.MethodGet, "/dashboard/tool?id=a:echo", "", &whole); whole.Changed || whole.Changes != nil {
		t.Errorf("seen: %+v", whole)
	}
}

// Hints that claim more than before are shown, and count once they are confirmed as they were
// shown.
func TestChangedHints(t *testing.T) {
	layer.Integration(t)
	claims := func(annotations string) config.Server {
		command, args := mcptest.Command("-tool", `{"name":"tidy","inputSchema":{"type":"object"},"annotations":`+annotations+`}`)
		return config.Server{Name: "a", Transport: config.Stdio, Command: command, Args: args, StartTimeout: 30 * time.Second}
	}
	s := open(t, claims("{}"))
	next := s.watch()
	next()
	var shown []Hint
	changed := func(n int) func(u update) bool {
		return func(u update) bool {
			return slices.ContainsFunc(u.Servers, func(s ServerDetails) bool { shown = s.Hints; return s.ChangedHints == n && len(s.Hints) == n })
		}
	}
	s.edits <- config.Config{Servers: []config.Server{claims(`{"readOnlyHint":true}`)}}
	until(next, changed(1))
	if shown[0].ID != "a:tidy" || shown[0].Tool != "tidy" || fmt.Sprint(shown[0].Changes) != "[readOnlyHint was missing and is true]" {
		t.Errorf("shown: %+v", shown)
	}
	var whole Tool
	if s.ask(http.MethodGet, "/dashboard/tool?id=a:tidy", "", &whole); !strings.Contains(whole.Doubt, "no person has confirmed") || !whole.Asks {
		t.Errorf("the tool: %+v", whole)
	}
	body, _ := json.Marshal(Confirmation{map[string]registry.Hints{"tidy": shown[0].Hints}})
	for _, c := range []struct {
		body, header string
		want         int
	}{
		{"{}", "", http.StatusBadRequest},
		{`{"hints":{"tidy":{"readOnlyHint":false}}}`, "", http.StatusConflict},
		{string(body), "https://evil.example", http.StatusForbidden},
		{string(body), "", http.StatusOK},
	} {
		var header []string
		if c.header != "" {
			header = []string{"Origin", c.header}
		}
		expect.Equal(t, s.ask(http.MethodPost, "/dashboard/servers/a/hints", c.body, nil, header...), c.want, "%s from %q", c.body, c.header)
	}
	until(next, changed(0))
	whole = Tool{}
	if s.ask(http.MethodGet, "/dashboard/tool?id=a:tidy", "", &whole); whole.Doubt != "" || whole.Asks {
		t.Errorf("confirmed: %+v", whole)
	}
}

// A page gets everything at first, and then the changes.
func TestEvents(t *testing.T) {
	layer.Integration(t)
	s := open(t, fake("a", "echo,fail,crash"), fake("b", "pid"))
	next := s.watch()
	first := next()
	if !first.Full || len(first.Servers) != 2 || state(first, "a") != "ready" ||
		first.Router == nil || first.Router.Mode != "direct" || first.Catalog == nil || first.Catalog.Tools != 4 || first.Config == nil || len(first.Config.Entries) != 2 {
		t.Errorf("at first: %+v", first)
	}
	var done Answer
	if status := s.ask(http.MethodPost, "/dashboard/call", `{"tool":"a:echo","arguments":{"message":"hi"}}`, &done); status != 200 || !strings.Contains(string(done.Result), "hi") {
		t.Fatalf("%d %s", status, done.Result)
	}
	s.ask(http.MethodPost, "/dashboard/call", `{"tool":"a:fail","arguments":{},"confirmed":true}`, &done)
	var calls []endedCall
	u := until(next, func(u update) bool {
		calls = append(calls, u.Calls...)
		return len(calls) == 2
	})
	if u.Full || u.Config != nil || u.Catalog != nil || calls[0].Tool != "echo" || calls[0].Outcome != "ok" || calls[0].Client != "dashboard" ||
		len(calls[0].Trace) != 32 || calls[0].Out == 0 || calls[1].Outcome != "tool_error" {
		t.Errorf("calls %+v", calls)
	}

	s.ask(http.MethodPost, "/dashboard/call", `{"tool":"a:crash","arguments":{},"confirmed":true}`, nil)
	u = until(next, func(u update) bool {
		return slices.ContainsFunc(u.Servers, func(s ServerDetails) bool { return s.State == "ready" && s.Restarts == 1 })
	})
	expect.Equal(t, len(u.Servers), 2, "after the crash: %+v", u.Servers)

	// A later page gets all that.
	if again := s.watch()(); !again.Full || len(again.Calls) != 3 || again.Skipped != 0 {
		t.Errorf("another page: %+v", again)
	}
}

// A page is sent the mode that an edit sets.
func TestEventsOfTheMode(t *testing.T) {
	layer.Integration(t)
	entry := fake("a", "echo")
	s := open(t, entry)
	next := s.watch()
	if first := next(); first.Router == nil || first.Router.Mode != exposure.Direct {
		t.Errorf("%+v", first.Router)
	}
	s.edits <- config.Config{Servers: []config.Server{entry}, Router: config.Router{Mode: exposure.Search}}
	if u := until(next, func(u update) bool { return u.Router != nil }); u.Router.Mode != exposure.Search {
		t.Errorf("%+v", u.Router)
	}
}

// Who closes the page gives up the call that it waits for.
func TestGiveUp(t *testing.T) {
	layer.Integration(t)
	s := open(t, fake("a", "sleep"))
	next := s.watch()
	next()
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+"/dashboard/call", strings.NewReader(`{"tool":"a:sleep","arguments":{"ms":60000},"confirmed":true}`))
	expect.OK(t, err)
	q.Header.Set("Content-Type", "application/json")
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		if answer, err := http.DefaultClient.Do(q); err == nil {
			answer.Body.Close()
		}
	}()
	until(next, func(u update) bool {
		return slices.ContainsFunc(u.Servers, func(s ServerDetails) bool { return s.InFlight == 1 })
	})
	leave()
	<-gone
	until(next, func(u update) bool {
		return slices.ContainsFunc(u.Calls, func(c endedCall) bool { return c.Outcome == "cancelled" })
	})
}

// Servers that do not work are shown with the doctor's finding, and strangers' texts as
// plain text without secrets.
func TestWhatIsWrong(t *testing.T) {
	layer.Integration(t)
	command, args := mcptest.Command("-tools", "echo")
	const says = `printf '\033[31mred\033[0m \033]0;title\007GITHUB_TOKEN=ghp_0123456789abcdefghij\n' >&2; exec "$0" "$@"`
	command, args = "sh", append([]string{"-c", says, command}, args...)
	s := open(t, config.Server{Name: "missing", Transport: config.Stdio, Command: "metarouter-no-such-command", StartTimeout: time.Second},
		config.Server{Name: "loud", Transport: config.Stdio, Command: command, Args: args, StartTimeout: 30 * time.Second})
	next := s.watch()
	servers := make(map[string]ServerDetails)
	learn := func(u update) bool {
		for _, s := range u.Servers {
			servers[s.Name] = s
		}
		return servers["missing"].State == "failed" && len(servers["loud"].Stderr) > 0
	}
	if !learn(next()) {
		until(next, learn)
	}
	missing, loud := servers["missing"], servers["loud"]
	if !strings.Contains(missing.Problem, "metarouter-no-such-command") || !strings.Contains(missing.Fix, "install it") {
		t.Errorf("%+v", missing)
	}
	if loud.Problem != "" || loud.Fix != "" {
		t.Errorf("what works is called broken: %+v", loud)
	}
	expect.Equal(t, strings.Join(loud.Stderr, "\n"), "red GITHUB_TOKEN=***", "stderr")
	const unset = "the variable API_TOKEN is not set; set it, or write ${API_TOKEN:-default}" // our own words are no secret
	info := s.detailsOf(status.Server{Status: status.Status{Name: "x", State: status.Misconfigured, LastError: unset}}, nil)
	expect.Equal(t, info.LastError, unset, "the error is shown as")
}

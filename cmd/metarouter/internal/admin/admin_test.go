package admin

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/mcp-metarouter/metarouter/adapter"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/configfile"
	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/exposure"
	"github.com/mcp-metarouter/metarouter/internal/reload"
	"github.com/mcp-metarouter/metarouter/internal/status"
	"github.com/mcp-metarouter/metarouter/internal/trustfile"
	"github.com/mcp-metarouter/metarouter/server"
	"github.com/mcp-metarouter/metarouter/test/expect"
	"github.com/mcp-metarouter/metarouter/test/mcptest"
)

func TestMain(m *testing.M) {
	mcptest.ServeIfAsked()
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/blevesearch/bleve_index_api.AnalysisWorker"))
}

// A site is a dashboard of a router that runs.
type site struct {
	t *testing.T
	*API
	mux   *http.ServeMux
	url   string
	edits chan<- config.Config
}

func fake(name, tools string) config.Server {
	command, args := mcptest.Command("-tools", tools)
	return config.Server{Name: name, Transport: config.Stdio, Command: command, Args: args, StartTimeout: 30 * time.Second}
}

// open runs a router of the servers until the test ends.
func open(t *testing.T, servers ...config.Server) *site {
	t.Helper()
	c := config.Config{Servers: servers}
	d := New(c, Options{Version: "1.2.3"})
	r := adapter.New(c, adapter.Options{Observer: d})
	edits := make(chan config.Config)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx, edits) }()
	mux := http.NewServeMux()
	options := server.Options{Live: reload.Follow(r, func(c config.Config) *server.Options {
		return &server.Options{Mode: cmp.Or(c.Router.Mode, exposure.Direct)}
	})}
	d.Register(mux, r, server.NewServers(server.Profiles{
		Open: func(server.View, []string) (server.Router, server.Options) { return r.View, options }, Whole: r,
	}))
	s := httptest.NewServer(mux)
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
		cancel()
		<-done
	})
	r.Settled(ctx)
	mcptest.WaitFor(t, "the servers", func() bool { // their tools are known a moment before
		return !slices.ContainsFunc(r.Servers(), func(s status.Server) bool { return s.State == status.Starting })
	})
	return &site{t, d, mux, s.URL, edits}
}

// ask sends a request and decodes the answer into v.
func (s *site) ask(method, path, body string, v any, header ...string) (status int) {
	s.t.Helper()
	q, err := http.NewRequestWithContext(s.t.Context(), method, s.url+path, strings.NewReader(body))
	expect.OK(s.t, err)
	q.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(header); i += 2 {
		q.Header.Set(header[i], header[i+1])
	}
	answer, err := http.DefaultClient.Do(q)
	expect.OK(s.t, err)
	defer answer.Body.Close()
	text, _ := io.ReadAll(answer.Body)
	if v != nil {
		expect.OK(s.t, json.Unmarshal(text, v), "%s: %s", path, text)
	}
	return answer.StatusCode
}

// watch opens a page, and returns the function that reads its next update.
func (s *site) watch() (next func() update) {
	s.t.Helper()
	q, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, s.url+"/dashboard/events", nil)
	expect.OK(s.t, err)
	answer, err := http.DefaultClient.Do(q)
	expect.OK(s.t, err)
	s.t.Cleanup(func() { answer.Body.Close() })
	lines := bufio.NewScanner(answer.Body)
	lines.Buffer(nil, 1<<20)
	return func() (u update) {
		for lines.Scan() {
			if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
				expect.OK(s.t, json.Unmarshal([]byte(data), &u))
				return u
			}
		}
		s.t.Fatal("the stream has ended: ", lines.Err())
		return u
	}
}

// until reads updates until one is as wanted.
func until(next func() update, wanted func(update) bool) update {
	for {
		if u := next(); wanted(u) {
			return u
		}
	}
}

func state(u update, server string) string {
	i := slices.IndexFunc(u.Servers, func(s ServerDetails) bool { return s.Name == server })
	if i < 0 {
		return ""
	}
	return u.Servers[i].State
}

// Tools are found as the router finds them, and it says why.
func TestTools(t *testing.T) {
	s := open(t, fake("a", "echo,browser_screenshot,browser_click"), fake("b", "pid"))
	var found Tools
	s.ask(http.MethodPost, "/dashboard/tools", `{"words":"take a screenshot"}`, &found)
	if len(found.Tools) == 0 || found.Tools[0].ID != "a:browser_screenshot" || found.Tools[0].Why == nil || !strings.Contains(found.Tools[0].Reason, "screenshot") || found.Total != 4 || !found.Sure || found.Abstained {
		t.Errorf("found %+v", found)
	}
	for query, want := range map[string]string{
		`{}`:                "a:browser_click a:browser_screenshot a:echo b:pid",
		`{"servers":["b"]}`: "b:pid",
		`{"capabilities":["Browser"],"known":true,"servers":["a"]}`: "a:browser_click a:browser_screenshot",
	} {
		var found Tools
		s.ask(http.MethodPost, "/dashboard/tools", query, &found)
		expect.Equal(t, found.Fitting, len(found.Tools), "%s: fit, and", query)
		var ids []string
		for _, t := range found.Tools {
			ids = append(ids, t.ID)
		}
		expect.Equal(t, strings.Join(ids, " "), want, "%s", query)
	}
	found = Tools{}
	if s.ask(http.MethodPost, "/dashboard/tools", `{"limit":3}`, &found); len(found.Tools) != 3 || found.Fitting != 4 {
		t.Errorf("of a list with a limit: %d of %d", len(found.Tools), found.Fitting)
	}
	found = Tools{}
	s.ask(http.MethodPost, "/dashboard/tools", `{"words":"screenshots frobnicated`+strings.Repeat(" x", 30_000)+`"}`, &found)
	if len(found.Tools) == 0 || found.Tools[0].Why.Words[0].Word != "screenshots" || !slices.Contains(found.Tools[0].Why.Missing, "frobnicated") {
		t.Errorf("a long search: %+v", found)
	}
	var whole Tool
	if status := s.ask(http.MethodGet, "/dashboard/tool?id=a:browser_click", "", &whole); status != 200 || !whole.Asks || whole.ExposedName != "a__browser_click" || !strings.Contains(string(whole.InputSchema), "selector") {
		t.Errorf("%d %+v", status, whole)
	}
	expect.Equal(t, s.ask(http.MethodGet, "/dashboard/tool?id=a:none", "", nil), 404)
}

// What an edit changes is shown, and no secret.
func TestConfiguration(t *testing.T) {
	before := config.Server{Name: "a", Transport: config.Stdio, Command: "npx", Args: []string{"-y", "a b", "--api-key", "hush1", "--token=hush2", "postgres://me:hush3@host/db", "--header", "Authorization: Bearer hush9hush", "-e", "STRIPE_KEY=hush10",
		"https://host/mcp/?tavilyApiKey=hush11", "https://host/mcp?hush12", "a1b2c3d4e5f6g7hush13xyz", "--user=ann", "@modelcontextprotocol/server-filesystem"}, Env: map[string]string{"KEY": "hush4"}}
	remote := config.Server{Name: "r", Transport: config.StreamableHTTP, URL: "https://me:hush5@host/s/hush14a1b2c3d4e5f6g7h8/mcp?key=hush6", Headers: map[string]string{"Authorization": "hush7", "X-Key": "hush8-of-many-letters"}}
	d := New(config.Config{Files: []string{"/f"}, Servers: []config.Server{before, remote}}, Options{})
	text, _ := json.Marshal(d.configuration())
	expect.Equal(t, strings.Contains(string(text), "hush"), false, "a secret is shown: %s", text)
	if got, want := d.configuration().Entries[0].Command, `npx -y 'a b' --api-key … --token=… postgres://…@host/db --header 'Authorization: …' -e STRIPE_KEY=… 'https://host/mcp/?tavilyApiKey=…' 'https://host/mcp?…' … --user=ann @modelcontextprotocol/server-filesystem`; got != want {
		t.Errorf("command %s, want %s", got, want)
	}
	expect.Equal(t, d.configuration().Entries[1].URL, "https://host/s/…/mcp", "URL")
	if got := lastError(d.mask, status.Server{Status: status.Status{State: status.Failed, LastError: "no login with hush8-of-many-letters"}}); strings.Contains(got, "hush") {
		t.Errorf("an error shows a secret: %s", got)
	}
	after := before
	after.Env, after.Lazy = map[string]string{"KEY": "hush8"}, true
	problem := config.Problem{File: "/f", Line: 3, Column: 4, Message: "oh"}
	d.Loaded(config.Config{Servers: []config.Server{after, {Name: "n"}}, Problems: []config.Problem{problem}})
	shown := d.configuration()
	d.Judged(errors.New("/f:1:2: a comma is missing"))
	if d.configuration() == shown || d.configuration().Rejected == "" || shown.Rejected != "" {
		t.Error("the rejected edit is not shown")
	}
	d.Judged(&configfile.Waiting{Untrusted: &trustfile.Untrusted{Before: true, Added: []string{"n"}}, Command: "metarouter trust /f"})
	if c := d.configuration(); !strings.Contains(c.Rejected, "(added: n)") || strings.Contains(c.Rejected, "run:") || c.Approve != "metarouter trust /f" {
		t.Errorf("an edit that waits is shown as %q, %q", c.Rejected, c.Approve)
	}
	d.Judged(nil)
	if d.configuration().Rejected != "" || d.configuration().Approve != "" {
		t.Error("it is still shown after it was repaired")
	}
}

// A page of another site reads nothing, and HEAD opens no page.
func TestForeignPages(t *testing.T) {
	s := open(t)
	if status := s.ask(http.MethodHead, "/dashboard/events", "", nil); status != 200 || s.pages.Load() != 0 {
		t.Errorf("%d, and %d pages are open", status, s.pages.Load())
	}
	for _, route := range routes {
		path, isGet := strings.CutPrefix(route.pattern, "GET /dashboard/")
		if !isGet || strings.HasPrefix(path, "page/") {
			continue
		}
		for _, site := range []string{"cross-site", "same-site"} {
			expect.Equal(t, s.ask(http.MethodGet, "/dashboard/"+strings.ReplaceAll(path, "{name}", "none"), "", nil, "Sec-Fetch-Site", site), 403, "%s for a %s page", path, site)
		}
	}
}

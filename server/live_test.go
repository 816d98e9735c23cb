package server

import (
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/exposure"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

// edited are options that a test edits while a server runs.
type edited struct {
	mu      sync.Mutex
	now     Options
	changed chan struct{}
}

func newEdited(o Options) *edited { return &edited{now: o, changed: make(chan struct{})} }

// options returns the options with which to make the server.
func (e *edited) options() Options {
	o := e.now
	now := &o
	seen := e.changed
	o.Live = func() (*Options, <-chan struct{}) {
		e.mu.Lock()
		defer e.mu.Unlock()
		if e.changed != seen {
			next := e.now
			now, seen = &next, e.changed
		}
		return now, seen
	}
	return o
}

func (e *edited) edit(change func(*Options)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	change(&e.now)
	close(e.changed)
	e.changed = make(chan struct{})
}

// An edit of what clients see is seen at the next list, and clients are notified of it.
func TestDisplayIsLive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEdited(Options{Mode: exposure.Direct})
		c := initialized(t, newFake(tool("a", "b"), tool("c", "d")), e.options())
		synctest.Wait()
		for _, test := range []struct {
			name string
			edit func(*Options)
			want string
		}{
			{"names", func(o *Options) { o.Names = exposure.Bare }, "b d"},
			{"separator", func(o *Options) { o.Names, o.Separator = exposure.Prefixed, "." }, "a.b c.d"},
			{"mode", func(o *Options) { o.Mode = exposure.Search }, "call_read_only_tool call_tool describe_tools find_tools route_task"},
			{"pinned", func(o *Options) { o.Pinned = []string{"c:d"} }, "c.d call_read_only_tool call_tool describe_tools find_tools route_task"},
			{"results that may be cut", func(o *Options) { o.Pinned, o.LimitsResults = nil, true }, "call_read_only_tool call_tool describe_tools find_tools read_result route_task"},
			{"classification", func(o *Options) { o.Mode, o.LimitsResults, o.Classifies = exposure.Direct, false, true }, "a.b c.d classify_text list_categories"},
			{"auto, over its budget", func(o *Options) { o.Mode, o.Classifies, o.ToolBudget = exposure.Auto, false, 1 }, "call_read_only_tool call_tool describe_tools find_tools route_task"},
			{"budget", func(o *Options) { o.ToolBudget = 10000 }, "a.b c.d"},
		} {
			e.edit(test.edit)
			expect.Equal(t, c.receive(), listChanged, "%s", test.name)
			names := c.list()[0]
			slices.Sort(names)
			expect.Equal(t, strings.Join(names, " "), test.want, "%s: the list", test.name)
			time.Sleep(time.Second)
		}
		c.wantPrefix(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a__b","arguments":{}}}`, `{"jsonrpc":"2.0","id":1,"result"`)
		e.edit(func(o *Options) { o.RouteThreshold = 0.9 })
		c.quiet("an edit that clients do not see notified them")
	})
}

// An edit of the budget alone decides the mode again, and growth of the catalog does not.
func TestModeIsDecidedByEdits(t *testing.T) {
	r := newFake(tool("a", "b"))
	e := newEdited(Options{Mode: exposure.Auto, ToolBudget: 1000})
	s := newAlone(r, e.options())
	e.edit(func(o *Options) { o.Pinned = []string{"a:b"} })
	for range 100 {
		r.replace("many", tool("many", strings.Repeat("x", 5000)))
	}
	expect.Equal(t, s.mode(), exposure.Direct, "an edit of the pinned tools changed the mode")
	e.edit(func(o *Options) { o.ToolBudget = 2 })
	expect.Equal(t, s.mode(), exposure.Search, "an edit of the budget did not change the mode")
}

// editedHTTP returns options that edit replaces.
func editedHTTP(o HTTPOptions) (live HTTPOptions, edit func(HTTPOptions)) {
	var mu sync.Mutex
	now, edited := &o, make(chan struct{})
	edit = func(o HTTPOptions) {
		mu.Lock()
		defer mu.Unlock()
		now = &o
		close(edited)
		edited = make(chan struct{})
	}
	return HTTPOptions{Live: func() (*HTTPOptions, <-chan struct{}) {
		mu.Lock()
		defer mu.Unlock()
		return now, edited
	}}, edit
}

// An edit of the HTTP options holds from the next request on, and ends the sessions of
// clients whose token was taken out.
func TestHTTPOptionsAreLive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		live, edit := editedHTTP(HTTPOptions{Tokens: tokens("one", "two")})
		w := serveWeb(t, newFake(tool("a", "b")), Options{Mode: exposure.Direct}, live)
		one, two := w.session("Authorization", "Bearer one"), w.session("Authorization", "Bearer two")
		const ping = `{"jsonrpc":"2.0","id":1,"method":"ping"}`
		status := func(want int, body string, header ...string) {
			t.Helper()
			if got, answer := w.text(http.MethodPost, "/mcp", body, header...); got != want {
				t.Errorf("status %d, want %d: %s", got, want, answer)
			}
		}
		status(http.StatusOK, ping, one...)

		edit(HTTPOptions{Tokens: tokens("two", "three")})
		status(http.StatusUnauthorized, ping, one...)
		status(http.StatusOK, ping, two...)
		status(http.StatusOK, ping, "Authorization", "Bearer three")
		synctest.Wait() // until the sessions of the token that is gone have ended
		edit(HTTPOptions{Tokens: tokens("one", "two")})
		status(http.StatusNotFound, ping, one...)

		edit(HTTPOptions{})
		status(http.StatusOK, ping)
		status(http.StatusForbidden, ping, "Host", "router.example.com")
		status(http.StatusForbidden, ping, "Origin", "https://page.example.com")
		edit(HTTPOptions{AllowedHosts: []string{"router.example.com"}, AllowedOrigins: []string{"https://page.example.com"}})
		status(http.StatusOK, ping, "Host", "router.example.com")
		status(http.StatusOK, ping, "Origin", "https://page.example.com")

		edit(HTTPOptions{MaxBody: 10})
		status(http.StatusRequestEntityTooLarge, ping)
		edit(HTTPOptions{Rate: 1, Burst: 1})
		status(http.StatusOK, ping)
		status(http.StatusTooManyRequests, ping)
		edit(HTTPOptions{Rate: 1, Burst: 1, MaxBody: 1000}) // goes on counting
		status(http.StatusTooManyRequests, ping)
		edit(HTTPOptions{})
		status(http.StatusOK, ping)
	})
}

// A suspended call goes on under the rules under which it began, and not under others.
func TestRulesOfSuspendedCalls(t *testing.T) {
	for _, test := range []struct {
		rules   any
		resumes bool
	}{{[]string{"work"}, true}, {[]string{"work", "less"}, false}, {nil, false}} {
		synctest.Test(t, func(t *testing.T) {
			r := newFake(tool("a", "b"))
			ended := r.asking("roots/list")
			e := newEdited(Options{Mode: exposure.Direct, Rules: []string{"work"}})
			c := connect(t, r, e.options())
			state := c.callAsking(1, "", "requestState")
			key := keyIn(t, c.callAsking(2, `,"requestState":`+state, "inputRequests"))
			e.edit(func(o *Options) { o.Rules = test.rules })
			got := c.callAsking(3, `,"inputResponses":{"`+key+`":{"roots":[]}},"requestState":`+state, "told")
			expect.Equal(t, strings.Contains(got, "roots"), test.resumes, "under %q: %s", test.rules, got)
			if err := <-ended; (err == nil) != test.resumes {
				t.Errorf("under %q the call ended with %v", test.rules, err)
			}
			expect.Equal(t, c.server.clients.Suspended(), 0, "under %q … calls are still suspended", test.rules)
		})
	}
}

package server

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/exposure"
	"github.com/mcp-metarouter/metarouter/internal/status"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

func TestDecision(t *testing.T) {
	open := &decision{mode: exposure.Auto, budget: 100, late: []string{"a", "b"}}
	for name, test := range map[string]struct {
		before   *decision
		mode     string
		unlisted []string
		cost     int
		search   bool
		late     int
	}{
		"all are known":                     {nil, exposure.Auto, nil, 100, false, 0},
		"all are known, over the budget":    {nil, exposure.Auto, nil, 101, true, 0},
		"none is known":                     {nil, exposure.Auto, []string{"a", "b"}, 0, false, 2},
		"those that are known are too much": {nil, exposure.Auto, []string{"a"}, 101, true, 0},
		"direct":                            {nil, exposure.Direct, []string{"a"}, 101, false, 0},
		"search":                            {nil, exposure.Search, []string{"a"}, 0, true, 0},
		"no mode is auto":                   {nil, "", []string{"a"}, 0, false, 1},

		"no servers yet, then some":         {&decision{mode: exposure.Auto, budget: 100, empty: true}, exposure.Auto, []string{"a"}, 50, false, 1},
		"no servers yet, then too many":     {&decision{mode: exposure.Auto, budget: 100, empty: true}, exposure.Auto, []string{"a"}, 101, true, 0},
		"a late one within the budget":      {open, exposure.Auto, []string{"b"}, 100, false, 1},
		"a late one over the budget":        {open, exposure.Auto, []string{"b"}, 101, true, 0},
		"the last ones":                     {open, exposure.Auto, nil, 100, false, 0},
		"another server over the budget":    {open, exposure.Auto, []string{"a", "b"}, 101, false, 2},
		"a server that was not there":       {open, exposure.Auto, []string{"a", "b", "c"}, 0, false, 2},
		"a late one, and one new":           {open, exposure.Auto, []string{"b", "c"}, 0, false, 1},
		"an edit decides again":             {open, exposure.Search, []string{"a", "b"}, 0, true, 0},
		"nothing but an edit does, so late": {&decision{mode: exposure.Auto, budget: 7, search: true}, exposure.Auto, []string{"a"}, 0, false, 1},
	} {
		if got := test.before.next(test.mode, 100, test.unlisted, test.cost); got.search != test.search || len(got.late) != test.late {
			t.Errorf("%s: search %v, late %v", name, got.search, got.late)
		}
	}
}

// costing returns a tool that costs about so many tokens.
func costing(server, name string, tokens int) registry.NormalizedTool {
	o := tool(server, name)
	o.Definition = fmt.Appendf(nil, `{"name":%q,"inputSchema":{"type":"object"},"description":%q}`, name, strings.Repeat("word", tokens))
	return o
}

var searchTools = []string{"call_read_only_tool", "call_tool", "describe_tools", "find_tools", "route_task"}

// listed returns the names of the tools, whatever else the client is sent meanwhile.
func (c *client) listed() (names []string) {
	c.t.Helper()
	c.send(`{"jsonrpc":"2.0","id":"list","method":"tools/list"}`)
	for {
		var m struct {
			ID     string
			Result struct{ Tools []struct{ Name string } }
		}
		expect.OK(c.t, json.Unmarshal([]byte(c.receive()), &m))
		if m.ID != "list" {
			continue
		}
		for _, tool := range m.Result.Tools {
			names = append(names, tool.Name)
		}
		return names
	}
}

// A first start lists what a later one lists.
func TestFirstListWaitsInAuto(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFake()
		r.late, r.settled = []string{"a", "b"}, make(chan struct{})
		r.servers = []status.Server{info("a", status.Starting, 0), info("b", status.Starting, 0)}
		c := connect(t, r, Options{ToolBudget: 1000, ListWait: 8 * time.Second})
		expect.Contains(t, c.ask(initializing), "If find_tools is not in your list of tools", "the instructions do not fit both modes")
		go func() {
			time.Sleep(time.Second)
			r.replace("a", costing("a", "one", 400))
			time.Sleep(2 * time.Second)
			r.replace("b", costing("b", "two", 400))
			close(r.settled)
		}()
		start := time.Now()
		if got := fmt.Sprint(c.listed()); got != "[a__one b__two]" || time.Since(start) != 3*time.Second {
			t.Errorf("after %s: %s", time.Since(start), got)
		}

		later := connect(t, r, Options{ToolBudget: 1000, ListWait: 8 * time.Second})
		expect.Contains(t, later.ask(initializing), "2 tools of 2 MCP servers as one list", "the instructions of a later start")
		expect.Equal(t, fmt.Sprint(later.listed()), "[a__one b__two]", "a later start")
	})
}

// The first list waits no longer than it matters: what is known already costs too much.
func TestFirstListEndsWithTheBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFake()
		r.late, r.settled = []string{"a", "never"}, make(chan struct{})
		c := connect(t, r, Options{ToolBudget: 1000, ListWait: 8 * time.Second})
		c.ask(initializing)
		go func() {
			time.Sleep(time.Second)
			r.replace("a", costing("a", "one", 1400))
		}()
		start := time.Now()
		if got := c.listed(); !slices.Equal(got, searchTools) || time.Since(start) != time.Second {
			t.Errorf("after %s: %s", time.Since(start), got)
		}
	})
}

// A client that waits in vain gets the search tools, until a tool is listed and the mode is decided.
func TestFirstListInVain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFake()
		r.late, r.settled = []string{"slow", "slower"}, make(chan struct{})
		r.servers = []status.Server{info("slow", status.Starting, 0), info("slower", status.Starting, 0)}
		c := connect(t, r, Options{ToolBudget: 1000, ListWait: 8 * time.Second})
		c.initialize()
		start := time.Now()
		if got := c.listed(); !slices.Equal(got, searchTools) || time.Since(start) != 8*time.Second {
			t.Errorf("after %s: %s", time.Since(start), got)
		}
		expect.Contains(t, connect(t, r, Options{ToolBudget: 1000}).ask(initializing), "If find_tools is not in your list of tools", "the instructions do not fit both modes")
		r.replace("slow")
		expect.List(t, c.listed(), searchTools, "a server without tools")
		r.replace("slower", costing("slower", "tool", 300))
		expect.Equal(t, c.receive(), listChanged)
		expect.Equal(t, fmt.Sprint(c.listed()), "[slower__tool]", "decided")
	})
}

// Servers that list after the first list was answered change the mode once at most, for all
// clients, who are notified. Tools of both modes can be called in either.
func TestLateServersChangeTheModeOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFake(costing("early", "tool", 100))
		r.late, r.settled = []string{"slow", "slower"}, make(chan struct{})
		c := initialized(t, r, Options{ToolBudget: 1000, ListWait: 8 * time.Second})
		callable := func() {
			t.Helper()
			c.wantPrefix(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"early__tool","arguments":{}}}`, `{"jsonrpc":"2.0","id":1,"result":{"content":[],"tool":"early:tool"`)
			c.wantPrefix(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"call_tool","arguments":{"tool":"early__tool","arguments":{}}}}`, `{"jsonrpc":"2.0","id":2,"result":{"content":[],"tool":"early:tool"`)
			c.wantPrefix(`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"find_tools","arguments":{"query":"x"}}}`, `{"jsonrpc":"2.0","id":3,"result":{"content":[{"type":"text","text":"{`)
		}
		start := time.Now()
		if got := fmt.Sprint(c.listed()); got != "[early__tool]" || time.Since(start) != 8*time.Second {
			t.Errorf("after %s: %s", time.Since(start), got)
		}
		callable()
		for _, step := range []struct {
			server string
			tokens int
			want   []string
		}{
			{"early", 200, []string{"early__tool"}},
			{"slow", 300, []string{"early__tool", "slow__tool"}},
			{"slower", 700, searchTools},
		} {
			r.replace(step.server, costing(step.server, "tool", step.tokens))
			expect.Equal(t, c.receive(), listChanged, "%s", step.server)
			expect.List(t, c.listed(), step.want, "%s", step.server)
			time.Sleep(time.Second)
		}
		callable()
		for _, server := range []string{"early", "slow", "slower"} {
			r.replace(server, costing(server, "tool", 1))
			time.Sleep(time.Minute)
		}
		synctest.Wait()
		if len(c.lines) > 0 || !slices.Equal(c.listed(), searchTools) {
			t.Error("the mode has changed again")
		}
	})
}

// In a router without servers nothing is decided: it is when the first ones are listed.
func TestModeOfTheFirstServers(t *testing.T) {
	r := newFake()
	s := newAlone(r, Options{ToolBudget: 1000})
	expect.Equal(t, s.mode(), exposure.Direct, "without servers")
	r.late = []string{"a", "b"}
	r.replace("a", costing("a", "tool", 600))
	expect.Equal(t, s.mode(), exposure.Direct, "with one of two servers")
	r.replace("b", costing("b", "tool", 600))
	expect.Equal(t, s.mode(), exposure.Search, "with both servers")
	r.replace("b")
	expect.Equal(t, s.mode(), exposure.Search, "the mode has changed again")
}

// The mode is the same for all clients, with a session or without, and an edit decides it again.
func TestModeIsTheSameForAllClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFake()
		r.late, r.settled = []string{"a", "never"}, make(chan struct{})
		e := newEdited(Options{ToolBudget: 1000, ListWait: 8 * time.Second})
		w := serveWeb(t, r, e.options(), HTTPOptions{})
		session := w.session()
		lists := func(want string) {
			t.Helper()
			var asking sync.WaitGroup
			for _, ask := range []struct {
				body   string
				header []string
			}{
				{`{"id":1,"method":"tools/list"}`, nil},
				{`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, session},
				{rpc("tools/list", modernMeta), slices.Concat(both, modernHeaders("tools/list", ""))},
			} {
				asking.Go(func() {
					if status, answer := w.text(http.MethodPost, "/mcp", ask.body, ask.header...); status != http.StatusOK || !strings.Contains(answer, want) || strings.Contains(answer, "find_tools") != (want == "find_tools") {
						t.Errorf("%d %s, want %s", status, answer, want)
					}
				})
			}
			asking.Wait()
		}
		go func() {
			time.Sleep(4 * time.Second)
			r.replace("a", costing("a", "tool", 500))
		}()
		lists("a__tool")
		r.late = append(r.late, "new")
		r.replace("new", costing("new", "tool", 600)) // an edit added it: the mode stays
		lists("new__tool")
		e.edit(func(o *Options) { o.ToolBudget = 1001 })
		lists("find_tools")
		e.edit(func(o *Options) { o.ToolBudget = 2000 })
		lists("new__tool")
		r.replace("never", costing("never", "tool", 1000)) // late for the new decision, too
		lists("find_tools")
		expect.Equal(t, w.server.mode(), exposure.Search, "the router says that it is in another mode")
	})
}

// find_tools names the servers, and the text changes only when servers come or go.
func TestFindToolsNamesServers(t *testing.T) {
	r := newFake(tool("files", "read"), tool("git", "log"))
	r.servers = []status.Server{info("git", "ready", 1), info("files", "failed", 1), info("off", "disabled", 0)}
	s := newAlone(r, Options{Mode: exposure.Search})
	described := func() string {
		page, _ := s.catalog.View().Tools.Page("")
		text := ""
		_ = wire.Elements(wire.Member(page, "tools"), func(tool []byte) bool {
			if name, _ := wire.String(wire.Member(tool, "name")); name == "find_tools" {
				text, _ = wire.String(wire.Member(tool, "description"))
			}
			return true
		})
		return text
	}
	if got := described(); !strings.HasSuffix(got, "(prompts/get). The servers: files, git.") {
		t.Errorf("described as %s", got)
	}
	options := s.display.catalogOptions()
	r.servers[1] = info("files", "ready", 7)
	r.replace("files", tool("files", "read"), tool("files", "write"))
	if described(); s.display.catalogOptions() != options {
		t.Error("another tool changes what is shown of our own")
	}
	r.servers = nil
	for i := range 200 {
		r.servers = append(r.servers, info(fmt.Sprintf("server-%03d", i), "ready", 1))
	}
	r.replace("files", tool("files", "read"))
	got := described()
	if n := len([]rune(got)); n > maxFindTools || n < maxFindTools-30 || !strings.Contains(got, "The servers: server-000, ") || !strings.HasSuffix(got, " more.") {
		t.Errorf("%d characters: %s", n, got)
	}
	r.servers = r.servers[:199]
	r.replace("files", tool("files", "write"))
	if described() == got {
		t.Error("the text stays after a server has gone")
	}
	// A profile names its own servers: they are its router's.
	own := newAlone(newFake(registry.NormalizedTool{ID: "a:b", Server: "a", Name: "b", Definition: json.RawMessage(`{"name":"b"}`), InputSchema: json.RawMessage(`{"type":"object"}`)}), Options{Mode: exposure.Search})
	if page, _ := own.catalog.View().Tools.Page(""); strings.Contains(string(page), "The servers:") {
		t.Errorf("%s", page)
	}
}

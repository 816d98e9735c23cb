package server

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/mcp-metarouter/metarouter/internal/exposure"
	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/status"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/server/internal/catalog"
	"github.com/mcp-metarouter/metarouter/server/internal/conversation"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

// list asks for all pages, and returns the names on each.
func (c *client) list() [][]string {
	c.t.Helper()
	var pages [][]string
	cursor := ""
	for {
		params, _ := json.Marshal(map[string]string{"cursor": cursor})
		if cursor == "" {
			params = []byte("{}")
		}
		var m struct {
			Result struct {
				Tools      []struct{ Name string }
				NextCursor string
			}
		}
		answer := c.ask(`{"jsonrpc":"2.0","id":"list","method":"tools/list","params":` + string(params) + `}`)
		if err := json.Unmarshal([]byte(answer), &m); err != nil || m.Result.Tools == nil {
			c.t.Fatalf("list: %s", answer)
		}
		names := make([]string, len(m.Result.Tools))
		for i, tool := range m.Result.Tools {
			names[i] = tool.Name
		}
		pages = append(pages, names)
		if cursor = m.Result.NextCursor; cursor == "" {
			return pages
		}
	}
}

func TestListPages(t *testing.T) {
	var tools []registry.NormalizedTool
	for i := range 2500 {
		tools = append(tools, tool("many", fmt.Sprintf("tool_%04d", i)))
	}
	c := initialized(t, newFake(tools...), Options{Mode: exposure.Direct})
	pages := c.list()
	if len(pages) != 3 || len(pages[0]) != 1000 || len(pages[1]) != 1000 || len(pages[2]) != 500 {
		t.Fatalf("%d pages", len(pages))
	}
	all := slices.Concat(pages...)
	if !slices.IsSorted(all) || len(slices.Compact(slices.Clone(all))) != 2500 || all[0] != "many__tool_0000" {
		t.Error("the pages do not make up the list")
	}
}

// A page has few bytes, so that one server with long definitions does not make the list too long for others.
func TestPagesOfLongDefinitions(t *testing.T) {
	var tools []registry.NormalizedTool
	for i := range 24 {
		long := tool("many", fmt.Sprintf("tool_%04d", i))
		long.Definition = fmt.Appendf(nil, `{"name":%q,"description":%q}`, long.Name, strings.Repeat("x", 1000_000))
		tools = append(tools, long)
	}
	c := initialized(t, newFake(tools...), Options{Mode: exposure.Direct})
	if pages := c.list(); len(pages) != 3 || len(slices.Concat(pages...)) != 24 {
		t.Errorf("%d pages with %d tools", len(pages), len(slices.Concat(pages...)))
	}
}

// Pages fit together though tools come and go between them.
func TestPagesOfAChangingList(t *testing.T) {
	var tools []registry.NormalizedTool
	for i := range 1500 {
		tools = append(tools, tool("many", fmt.Sprintf("tool_%04d", i)))
	}
	r := newFake(tools...)
	s := newAlone(r, Options{Mode: exposure.Direct})
	r.replace("many", slices.Delete(slices.Clone(tools), 100, 1100)...) // the last of the page among them
	page, ok := s.catalog.View().Tools.Page(base64.RawURLEncoding.EncodeToString([]byte("after:many__tool_0999")))
	if !ok || !strings.Contains(string(page), `"many__tool_1100"`) || strings.Contains(string(page), `"many__tool_0099"`) {
		t.Errorf("%.200s", page)
	}
}

func TestSearchList(t *testing.T) {
	r := newFake(tool("files", "read"), tool("files", "write"), tool("git", "log"))
	r.late, r.settled = []string{"late"}, make(chan struct{}) // search mode never waits
	c := initialized(t, r, Options{Mode: exposure.Search, ListWait: time.Hour, Pinned: []string{"files:read", "files__read", "git.log", "no:such"}})
	want := [][]string{{"call_read_only_tool", "call_tool", "describe_tools", "files__read", "find_tools", "git__log", "route_task"}}
	if got := c.list(); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("list = %v, want %v", got, want)
	}
}

func TestListWaitsForNewServers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFake()
		r.settled = make(chan struct{})
		c := initialized(t, r, Options{Mode: exposure.Direct, ListWait: 10 * time.Second})
		go func() {
			time.Sleep(3 * time.Second)
			r.replace("new", tool("new", "tool"))
			close(r.settled)
		}()
		start := time.Now()
		expect.Equal(t, fmt.Sprint(c.list()), "[[new__tool]]", "list")
		expect.Equal(t, time.Since(start), 3*time.Second, "waited")
	})
}

func TestListWaitsNoLongerThanListWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFake(tool("a", "b"))
		r.settled = make(chan struct{})
		c := initialized(t, r, Options{Mode: exposure.Direct, ListWait: 5 * time.Second})
		start := time.Now()
		for range 3 { // only the first waits
			expect.Equal(t, fmt.Sprint(c.list()), "[[a__b]]", "list")
		}
		expect.Equal(t, time.Since(start), 5*time.Second, "waited")
	})
}

const listChanged = `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`

func TestListChangedIsCoalesced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFake()
		c := initialized(t, r, Options{Mode: exposure.Direct})
		synctest.Wait()
		start := time.Now()
		for i := range 10 { // all while changes are gathered
			r.replace(fmt.Sprint("s", i), tool(fmt.Sprint("s", i), "tool"))
			time.Sleep(gatherTime / 12)
		}
		expect.Equal(t, c.receive(), listChanged)
		if d := time.Since(start); d < gatherTime || d > gatherTime+50*time.Millisecond {
			t.Errorf("told after %s", d)
		}
		r.replace("late", tool("late", "tool"))
		expect.Equal(t, c.receive(), listChanged)
		if d := time.Since(start); d < gatherTime+notifyEvery || d > gatherTime+notifyEvery+50*time.Millisecond {
			t.Errorf("told again after %s", d)
		}
		c.quiet("told of nothing")
	})
}

// What changes before anybody looks has changed for who has listed it.
func TestListChangedBeforeRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFake(tool("a", "b"))
		w := serveWeb(t, late{r}, Options{Mode: exposure.Direct}, HTTPOptions{})
		s := reading(t, w.get(w.session()))
		r.replace("c", tool("c", "d"))
		s.want("0_1", listChanged)
		s.body.Close()
	})
}

// late is a router that it takes time to listen to.
type late struct{ *fakeRouter }

func (l late) Listen(f func(string, session.Client, session.Message)) func() {
	time.Sleep(time.Second)
	return l.fakeRouter.Listen(f)
}

// What clients do not see changes nothing for them.
func TestListChangedOnlyIfTheListDid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFake(tool("a", "b"))
		c := initialized(t, r, Options{Mode: exposure.Search, Pinned: []string{"a:b"}})
		synctest.Wait()
		r.replace("c", tool("c", "d"))
		c.quiet("told of nothing")
		r.replace("a")
		expect.Equal(t, c.receive(), listChanged)
	})
}

// Each list that differs is announced, though its server has not said so.
func TestEachListIsAnnounced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var o registry.Offer
		r := newFake()
		c := initialized(t, r, Options{Mode: exposure.Direct})
		synctest.Wait()
		for _, tt := range []struct {
			name, list string
			add        func()
		}{
			{"a prompt", "prompts", func() { o.Prompts = []registry.Prompt{prompt("a", "greet")} }},
			{"a resource", "resources", func() { o.Resources = []registry.Resource{resource("a", "x:a")} }},
			{"a template", "resources", func() { o.Templates = []registry.Template{uriTemplate("a", "x:t/{id}")} }},
		} {
			tt.add()
			r.offer("a", o)
			expect.Equal(t, c.receive(), `{"jsonrpc":"2.0","method":"notifications/`+tt.list+`/list_changed"}`, "%s", tt.name)
			time.Sleep(time.Second)
		}
	})
}

// A server that says without end that its list has changed is believed four times, and then once a minute.
func TestSameLists(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := offering()
		c := initialized(t, r, Options{Mode: exposure.Direct})
		synctest.Wait()
		heard := 0
		for range 20 * 60 { // ten minutes
			r.say("a", nil, session.Message{Method: "notifications/prompts/list_changed"})
			time.Sleep(500 * time.Millisecond)
			synctest.Wait()
			for len(c.lines) > 0 {
				c.receive()
				heard++
			}
		}
		if want := sameBurst + int(10*time.Minute/sameEvery); heard < want-1 || heard > want {
			t.Errorf("the client heard %d times, want %d", heard, want)
		}
	})
}

// A client that has only asked who we are has not asked for notifications, nor
// has a modern one without a subscription.
func TestListChangedOnlyToThoseWhoWantIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFake()
		c := connect(t, r, Options{Mode: exposure.Direct})
		c.wantPrefix(`{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{`+modernMeta+`}}`, `{"jsonrpc":"2.0","id":1,"result":`)
		synctest.Wait()
		r.replace("a", tool("a", "b"))
		time.Sleep(time.Minute)
		c.wantPrefix(`{"jsonrpc":"2.0","id":2,"method":"tools/list","params":{`+modernMeta+`}}`, `{"jsonrpc":"2.0","id":2,"result":`)
		r.replace("a", tool("a", "c"))
		c.quiet("told unasked")
		c.wantPrefix(`{"jsonrpc":"2.0","id":"sub","method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true},`+modernMeta+`}}`,
			`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged"`)
		r.replace("a", tool("a", "d"))
		if got := c.receive(); !strings.Contains(got, `"method":"notifications/tools/list_changed"`) || !strings.Contains(got, `"io.modelcontextprotocol/subscriptionId":"sub"`) {
			t.Errorf("got %s", got)
		}
	})
}

func TestBudgetCrossed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, logs := observer.New(zap.WarnLevel)
		r := newFake(tool("a", "b"))
		connect(t, r, Options{Mode: exposure.Auto, ToolBudget: 100, Log: zap.New(core)})
		synctest.Wait()
		for i := range 5 {
			server := fmt.Sprint("s", i)
			r.replace(server, tool(server, "tool"))
			time.Sleep(5 * time.Second)
		}
		expect.Equal(t, logs.Len(), 1, "warnings")
	})
}

// instructions returns the instructions of a router.
func instructions(r Router, search, decided bool) string {
	o, options := new(Options), &catalog.Options{Search: search}
	d := &display{router: r, live: func() (*Options, <-chan struct{}) { return o, nil }}
	d.now.Store(&displayed{options: o, snapshot: r.Snapshot(), decision: decision{late: map[bool][]string{false: {"late"}}[decided]}, catalog: options})
	return (&greeting{display: d, catalog: catalog.New(r, func() *catalog.Options { return options })}).instructions()
}

func TestInstructions(t *testing.T) {
	browse := tool("web", "open")
	browse.Capabilities = []string{"browser", "web"}
	r := newFake(browse, tool("git", "log"))
	r.servers = []status.Server{info("web", status.Ready, 1), info("git", status.Idle, 1), info("slow", status.Starting, 0), info("none", status.Disabled, 0)}
	search, direct, open := instructions(r, true, true), instructions(r, false, true), instructions(r, false, false)
	for _, text := range []string{search, direct} {
		for _, part := range []string{"2 tools of 3 MCP servers", "web (1), git (1), slow (starting).", "browser (1), web (1)."} {
			expect.Contains(t, text, part)
		}
	}
	if !strings.Contains(search, "find_tools") || strings.Contains(direct, "find_tools") {
		t.Errorf("search:\n%s\ndirect:\n%s", search, direct)
	}
	says := strings.Repeat("é", 400)
	for _, server := range []string{"web", "git", "slow", "none"} {
		r.offer(server, registry.Offer{Tools: map[string][]registry.NormalizedTool{"web": {browse}, "git": {tool("git", "log")}}[server], Instructions: says})
	}
	for i := range 9 {
		more := fmt.Sprint("more", i)
		r.offer(more, registry.Offer{Instructions: says})
		r.servers = append(r.servers, info(more, status.Ready, 0))
	}
	direct = instructions(r, false, true)
	for _, part := range []string{"\n## web\n" + says[:496] + "…\n", "\n## git\n", "\n## slow\n", "\nThe instructions of 5 more servers are left out.\n"} {
		expect.Contains(t, direct, part)
	}
	if text := instructions(r, true, true); len(direct) > maxQuoted+100 || !utf8.ValidString(direct) || strings.Contains(direct, "## none") || strings.Contains(text, "##") {
		t.Errorf("direct:\n%s\nsearch:\n%s", direct, text)
	}

	r = newFake(tool("git", "log"))
	r.servers = []status.Server{info("git", status.Ready, 1)}
	if one := instructions(r, true, true); !strings.HasPrefix(one, "This router holds 1 tool of 1 MCP server. ") {
		t.Errorf("one tool:\n%s", one)
	}
	for _, part := range []string{"3 MCP servers", "named server__tool.", "If find_tools is not in your list", "call_tool", "slow (starting)."} {
		expect.Contains(t, open, part)
	}

	for i := range 200 { // many servers, long names, several bytes a letter
		server := fmt.Sprintf("sérver-with-a-long-name-%d", i)
		one := tool(server, "tool")
		one.Capabilities = []string{fmt.Sprintf("capability-%d", i)}
		r.replace(server, one)
		r.servers = append(r.servers, info(server, status.Ready, 1))
	}
	for i, text := range []string{instructions(r, true, true), instructions(r, false, true), instructions(r, false, false)} {
		if len(text) > maxInstructions || len(text) < maxInstructions*3/4 || !utf8.ValidString(text) || strings.Count(text, " more.") != 2 {
			t.Errorf("%d: %d bytes:\n%s", i, len(text), text)
		}
	}
}

// Tools for the user interface of their server alone are listed for clients that show it, and are in no
// answer for a model.
func TestAppTools(t *testing.T) {
	both, app := tool("a", "show_orders"), tool("a", "refresh_orders")
	both.Definition = json.RawMessage(`{"name":"show_orders","inputSchema":{"type":"object"},"_meta":{"ui":{"resourceUri":"ui://a/x","visibility":["model","app"]}}}`)
	app.Definition = json.RawMessage(`{"name":"refresh_orders","inputSchema":{"type":"object"},"_meta":{"ui":{"resourceUri":"ui://a/x","visibility":["app"]}}}`)
	r := newFake(both, app)
	s := newAlone(r, Options{Mode: exposure.Direct})
	list := func(capabilities string) string {
		params := json.RawMessage(`{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":` + capabilities + `}}`)
		r, err := s.clients.Visit(false, conversation.Identity{}, "").Begin(t.Context(), conversation.Read(wire.Message{ID: json.RawMessage("1"), Method: "tools/list", Params: params}), nil)
		expect.OK(t, err)
		defer r.Cancel(context.Canceled)
		raw, err := s.list(t.Context(), conversation.Call{Request: r, From: r})
		expect.OK(t, err)
		return string(raw)
	}
	if got := list(`{}`); strings.Contains(got, "refresh_orders") || !strings.Contains(got, "show_orders") {
		t.Errorf("a client without user interfaces: %s", got)
	}
	expect.Contains(t, list(`{"extensions":{"io.modelcontextprotocol/ui":{}}}`), `"a__refresh_orders","inputSchema":{"type":"object"},"_meta":{"ui":{"resourceUri":"ui://a/x","visibility":["app"]}}`, "a client with user interfaces")
	raw, err := perform(t.Context(), s, []byte(`{"name":"a__refresh_orders","arguments":{"n":1}}`))
	if name, _ := wire.String(wire.Member(raw, "tool")); err != nil || name != "a:refresh_orders" {
		t.Errorf("called by name: %s, %v", raw, err)
	}
	described := calls[struct{ Tools []description }](t, s, "describe_tools", `{"ids":["a:refresh_orders"]}`).StructuredContent.Tools
	if len(described) != 1 || described[0].Definition != nil || !strings.Contains(described[0].Error, "user interface") {
		t.Errorf("described: %+v", described)
	}
}

// Clients of APIs of models are known by words of their names.
func TestWantsFlat(t *testing.T) {
	for name, want := range map[string]bool{
		"claude-ai": true, "claude-code": true, "ClaudeCode": true, "Visual Studio Code - Insiders": true, "codex-mcp-client": true,
		"gemini-cli-mcp-client": true, "cursor-vscode": true, "Zed": true, "goose": true, "Cline": true, "opencode": true,
		"authorized": false, "mongoose": false, "decline": false, "decoder": false, "barcode": false, "mcp-inspector": false, "": false,
	} {
		expect.Equal(t, wantsFlat(name), want, "%q", name)
	}
}

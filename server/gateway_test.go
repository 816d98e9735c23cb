package server

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/internal/exposure"
	"github.com/mcp-metarouter/metarouter/internal/status"
	"github.com/mcp-metarouter/metarouter/selector"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

// One prefix is taken off the names of tools, on every path, and an edit changes it.
func TestPrefix(t *testing.T) {
	r := newFake(tool("a", "b"), tool("gw", "b"))
	r.execute = func(_ context.Context, c selector.Call) (selector.Result, error) {
		return selector.Result{JSON: fmt.Appendf(nil, `{"content":[],"ran":%q}`, c.Tool.ID)}, nil
	}
	r.servers = []status.Server{info("a", "ready", 1), info("gw", "ready", 1)}
	r.await = func() error { return nil }
	e := newEdited(Options{Mode: exposure.Direct, Prefix: "gw."})
	o := e.options()
	w, c := serveWeb(t, r, o, HTTPOptions{}), connect(t, r, o)
	c.initialize()
	id := 10
	call := func(name string) (answers map[string]string) {
		answers = make(map[string]string)
		params := fmt.Sprintf(`"name":%q,"arguments":{}`, name)
		_, answers["plain"] = w.text(http.MethodPost, "/mcp", rpc("tools/call", params))
		_, answers["REST"] = w.text(http.MethodPost, "/mcp/tools/call", "{"+params+"}")
		_, answers["call_tool"] = w.text(http.MethodPost, "/mcp/tools/call", fmt.Sprintf(`{"name":"call_tool","arguments":{"tool":%q}}`, name))
		_, answers["session"] = w.text(http.MethodPost, "/mcp", rpc("tools/call", params), w.session()...)
		_, answers["modern"] = w.text(http.MethodPost, "/mcp", rpc("tools/call", params+","+modernMeta), modernHeaders("tools/call", name)...)
		id++
		answers["stdio"] = c.ask(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{%s}}`, id, params))
		return answers
	}
	check := func(name, want string) {
		t.Helper()
		for path, answer := range call(name) {
			expect.Contains(t, answer, want, "%s over %s", name, path)
		}
	}
	const refused = "unknown tool"
	check("gw.a__b", `"ran":"a:b"`)
	check("gw.a:b", `"ran":"a:b"`)
	check("gw.b", `"ran":"gw:b"`) // with the prefix, it is the name of a tool
	check("a__b", `"ran":"a:b"`)
	check("gx.a__b", refused)
	for path, answer := range call("gw.a__c") {
		expect.Contains(t, answer, refused, "%s", path)
	}
	if _, answer := w.text(http.MethodPost, "/mcp/tools/call", `{"name":"gw.find_tools","arguments":{"query":"b"}}`); !strings.Contains(answer, `"tool_name":"find_tools"`) {
		t.Errorf("our own tool: %s", answer)
	}
	if _, list := w.text(http.MethodPost, "/mcp/tools/list", ``); strings.Contains(list, "gw.") {
		t.Errorf("the list has the prefix: %s", list)
	}
	e.edit(func(o *Options) { o.Prefix = "gx." })
	check("gx.a__b", `"ran":"a:b"`)
	check("gw.a__b", refused)
	e.edit(func(o *Options) { o.Prefix = "" })
	check("gx.a__b", refused)
}

// A tool that is not listed yet keeps its name: its server is asked before the prefix is
// taken off.
func TestPrefixOfLateServer(t *testing.T) {
	r := newFake(tool("a", "b"))
	r.servers = []status.Server{info("a", "ready", 1), info("gw", "starting", 0)}
	r.await = func() error { r.replace("gw", tool("gw", "b")); return nil }
	w := serveWeb(t, r, Options{Mode: exposure.Direct, Prefix: "gw."}, HTTPOptions{})
	if _, answer := w.text(http.MethodPost, "/mcp/tools/call", `{"name":"gw.b","arguments":{}}`); !strings.Contains(answer, `"tool":"gw:b"`) {
		t.Errorf("%s", answer)
	}
}

// The name in serverInfo is configurable, and an edit changes it for new sessions.
func TestName(t *testing.T) {
	e := newEdited(Options{Mode: exposure.Direct, Name: "dwo", Version: "1"})
	r := newFake(tool("a", "b"))
	o := e.options()
	w := serveWeb(t, r, o, HTTPOptions{})
	check := func(want string) {
		t.Helper()
		c := connect(t, r, o)
		for path, answer := range map[string]string{
			"stdio":    c.ask(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`),
			"plain":    second(w.text(http.MethodPost, "/mcp", rpc("initialize", ""))),
			"modern":   second(w.text(http.MethodPost, "/mcp", rpc("tools/call", `"name":"a__b","arguments":{},`+modernMeta), modernHeaders("tools/call", "a__b")...)),
			"discover": second(w.text(http.MethodPost, "/mcp", rpc("server/discover", modernMeta), modernHeaders("server/discover", "")...)),
		} {
			expect.Contains(t, answer, want, "%s", path)
		}
	}
	check(`erverInfo":{"name":"dwo","version":"1"}`)
	e.edit(func(o *Options) { o.Name = "other" })
	check(`erverInfo":{"name":"other","version":"1"}`)
	e.edit(func(o *Options) { o.Name = "" })
	check(`erverInfo":{"name":"metarouter","title":"Metarouter","version":"1"}`)
}

// The answer to a plain initialize has a sessionId, which means nothing: a client may send it
// back, or another one, in parameters or as a header.
func TestPlainSessionID(t *testing.T) {
	w := serveWeb(t, newFake(tool("a", "b")), Options{Mode: exposure.Direct}, HTTPOptions{})
	var begun struct {
		Result struct{ SessionID, ProtocolVersion string }
	}
	if _, answer := w.text(http.MethodPost, "/mcp", rpc("initialize", `"protocolVersion":"2025-06-18","sessionId":"mine"`)); json.Unmarshal([]byte(answer), &begun) != nil ||
		begun.Result.SessionID == "" || begun.Result.SessionID == "mine" || begun.Result.ProtocolVersion != "2025-06-18" {
		t.Fatalf("initialize: %s", answer)
	}
	for _, method := range []string{"tools/list", "tools/call", "ping", "prompts/list", "resources/list", "server/discover"} {
		params := ""
		if method == "tools/call" {
			params = `"name":"a__b","arguments":{"n":5}`
		}
		_, want := w.text(http.MethodPost, "/mcp", rpc(method, params))
		with := strings.TrimSuffix(fmt.Sprintf(`"sessionId":%q,`, begun.Result.SessionID)+params, ",")
		_, plain := w.text(http.MethodPost, "/mcp", rpc(method, with), headerSession, begun.Result.SessionID)
		_, rest := w.text(http.MethodPost, "/mcp/"+method, "{"+with+"}", headerSession, begun.Result.SessionID)
		var answer struct{ Result json.RawMessage }
		if err := json.Unmarshal([]byte(plain), &answer); err != nil || answer.Result == nil {
			t.Errorf("%s: %s", method, plain)
		}
		if plain != want || rest != string(answer.Result) {
			t.Errorf("%s:\nplain %s\nREST %s\nwant %s", method, plain, rest, want)
		}
	}
}

func second(_ int, answer string) string { return answer }

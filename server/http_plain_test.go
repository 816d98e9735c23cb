package server

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/internal/execute"
	"github.com/mcp-metarouter/metarouter/internal/exposure"
	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/status"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/selector"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

// REST style: the method is in the path, and the answer is the bare result.
func TestRest(t *testing.T) {
	r := newFake(tool("a", "b"))
	r.execute = func(_ context.Context, c selector.Call) (selector.Result, error) {
		switch string(c.Arguments) {
		case `{"n":1}`:
			return selector.Result{JSON: json.RawMessage(`{"content":[],"isError":true}`), IsError: true}, nil
		case `{"n":4}`:
			return selector.Result{JSON: json.RawMessage(`{"isError": false,"content":[]}`)}, nil
		case `{"n":2}`:
			return selector.Result{}, &session.Error{Code: -32000, Message: "the server's own", Data: json.RawMessage(`[1]`)}
		case `{"n":3}`:
			panic("a fault of ours")
		case `{"n":6}`:
			return selector.Result{}, &session.Error{Code: session.CodeMethodNotFound, Message: "no such method here"}
		}
		return selector.Result{JSON: fmt.Appendf(nil, `{"content":[],"tool":%q,"arguments":%s}`, c.Tool.ID, c.Arguments)}, nil
	}
	w := serveWeb(t, r, Options{Mode: exposure.Direct}, HTTPOptions{MaxBody: 10_000})
	ran := `{"content":[],"tool":"a:b","arguments":{"n":5},"isError":false}`
	for name, test := range map[string]struct {
		method, body string
		status       int
		want         string
	}{
		"ping":                       {"ping", ``, 200, `{"status":"ok"}`},
		"ping, empty object":         {"ping", `{}`, 200, `{"status":"ok"}`},
		"initialize":                 {"initialize", ``, 200, `{"protocolVersion":"2025-03-26"`},
		"initialize, no version":     {"initialize", `{"protocolVersion":"","capabilities":{}}`, 200, `{"protocolVersion":"2025-03-26"`},
		"initialize, a later one":    {"initialize", `{"protocolVersion":"2031-01-01"}`, 200, `{"protocolVersion":"2025-11-25"`},
		"initialize as vLLM":         {"initialize", `{"method":"initialize","params":{"protocolVersion":"2024-11-05","capabilities":{},"clientInfo":{"name":"vllm-semantic-router","version":"1"}}}`, 200, `{"protocolVersion":"2024-11-05"`},
		"initialized":                {"notifications/initialized", ``, 202, ``},
		"list":                       {"tools/list", `{}`, 200, `{"tools":[{`},
		"list as vLLM":               {"tools/list", `{"method":"","params":{}}`, 200, `{"tools":[{`},
		"list, null":                 {"tools/list", `null`, 200, `{"tools":[{`},
		"list, null params":          {"tools/list", `{"params":null}`, 200, `{"tools":[{`},
		"list, whole request":        {"tools/list", `{"jsonrpc":"2.0","id":7,"method":"tools/list"}`, 200, `{"tools":[{`},
		"list, slash":                {"tools/list/", `{}`, 200, `{"tools":[{`},
		"list, two slashes":          {"/tools/list", `{}`, 200, `{"tools":[{`},
		"list, cursor":               {"tools/list", `{"cursor":"x"}`, 400, `{"error":{"code":-32602,`},
		"list, enveloped cursor":     {"tools/list", `{"params":{"cursor":"x"}}`, 400, `{"error":{"code":-32602,`},
		"resources":                  {"resources/list", ``, 200, `{"resources":[`},
		"templates":                  {"resources/templates/list", ``, 200, `{"resourceTemplates":[`},
		"prompts":                    {"prompts/list", ``, 200, `{"prompts":[`},
		"discover":                   {"server/discover", ``, 200, `{"supportedVersions":[`},
		"call":                       {"tools/call", `{"name":"a__b","arguments":{"n":5}}`, 200, ran},
		"call, enveloped":            {"tools/call", `{"params":{"name":"a__b","arguments":{"n":5}}}`, 200, ran},
		"call as vLLM":               {"tools/call", `{"method":"","params":{"name":"a__b","arguments":{"n":5}}}`, 200, ran},
		"call, whole request":        {"tools/call", `{"jsonrpc":"2.0","id":"x","method":"tools/call","params":{"name":"a__b","arguments":{"n":5}}}`, 200, ran},
		"call, params and more":      {"tools/call", `{"params":{"name":"x"},"name":"a__b","arguments":{"n":5}}`, 200, ran},
		"call, many lines":           {"tools/call", "{\"name\":\"a__b\",\r\n\"arguments\":{\"n\":5}}\n", 200, ran},
		"modern":                     {"tools/call", `{"name":"a__b","arguments":{"n":5},` + modernMeta + `}`, 200, `{"content":[],"tool":"a:b","arguments":{"n":5},"resultType":"complete"`},
		"a result with isError":      {"tools/call", `{"name":"a__b","arguments":{"n":4}}`, 200, `{"isError": false,"content":[]}`},
		"our own tool":               {"tools/call", `{"name":"read_result","arguments":{"uri":"x:y"}}`, 200, `{"content":[{`},
		"a tool's own failure":       {"tools/call", `{"name":"a__b","arguments":{"n":1}}`, 200, `{"content":[],"isError":true}`},
		"a server's error":           {"tools/call", `{"name":"a__b","arguments":{"n":2}}`, 500, `{"error":{"code":-32000,"message":"the server's own","data":[1]}}`},
		"a method the server lacks":  {"tools/call", `{"name":"a__b","arguments":{"n":6}}`, 404, `{"error":{"code":-32601,"message":"no such method here"}}`},
		"our error":                  {"tools/call", `{"name":"a__b","arguments":{"n":3}}`, 500, `{"error":{"code":-32603,"message":"internal error"}}`},
		"unknown tool":               {"tools/call", `{"name":"a__c"}`, 400, `{"error":{"code":-32602,"message":"unknown tool`},
		"no name":                    {"tools/call", ``, 400, `{"error":{"code":-32602,`},
		"unknown method":             {"no/such", `{}`, 404, `{"error":{"code":-32601,"message":"method not found: no/such"}}`},
		"subscribing":                {"subscriptions/listen", `{}`, 400, `{"error":{"code":-32600,`},
		"another method":             {"tools/list", `{"method":"tools/call","params":{}}`, 400, `{"error":{"code":-32600,`},
		"no method":                  {"tools/list", `{"method":1,"params":{}}`, 400, `{"error":{"code":-32600,`},
		"array":                      {"tools/list", `[]`, 400, `{"error":{"code":-32602,`},
		"text":                       {"tools/list", `"x"`, 400, `{"error":{"code":-32602,`},
		"no text":                    {"tools/list", "{\"cursor\":\"\xff\"}", 400, `{"error":{"code":-32700,`},
		"no JSON":                    {"tools/list", `{`, 400, `{"error":{"code":-32700,`},
		"a line's end within a text": {"tools/list", "{\"cursor\":\"\n\"}", 400, `{"error":{"code":-32700,`},
		"too long":                   {"tools/list", `{"x":"` + strings.Repeat("x", 10_000) + `"}`, 413, `{"error":{"code":-32600,`},
	} {
		t.Run(name, func(t *testing.T) {
			for _, header := range [][]string{{"Accept", "application/json"}, {"Accept", "text/event-stream", "Mcp-Protocol-Version", "2025-11-25", "Mcp-Session-Id", "x"}} {
				status, answer := w.text(http.MethodPost, "/mcp/"+test.method, test.body, header...)
				if status != test.status || !strings.HasPrefix(answer, test.want) {
					t.Errorf("%d %s\nwant %d %s…", status, answer, test.status, test.want)
				}
			}
		})
	}
}

// Only plain JSON-RPC and REST say isError: false: elsewhere a result stays the server's.
func TestIsErrorFalse(t *testing.T) {
	w := serveWeb(t, newFake(tool("a", "b")), Options{Mode: exposure.Direct}, HTTPOptions{})
	const call = `"name":"a__b","arguments":{"n":5}`
	for name, test := range map[string]struct {
		header []string
		call   string
		says   bool
	}{
		"plain":   {nil, call, true},
		"session": {w.session(), call, false},
		"modern":  {modernHeaders("tools/call", "a__b"), call + "," + modernMeta, false},
	} {
		status, answer := w.text(http.MethodPost, "/mcp", rpc("tools/call", test.call), test.header...)
		if status != 200 || !strings.Contains(answer, `"tool":"a:b"`) || strings.Contains(answer, `"isError":false`) != test.says {
			t.Errorf("%s: %d %s", name, status, answer)
		}
	}
}

// What a web page can send unasked gets nowhere.
func TestRestMedia(t *testing.T) {
	w := serveWeb(t, newFake(tool("a", "b")), Options{Mode: exposure.Direct}, HTTPOptions{Tokens: tokens("x")})
	bearer := []string{"Authorization", "Bearer x"}
	for _, test := range []struct {
		method, path, body string
		header             []string
		status             int
		want               string
	}{
		{"POST", "/mcp/ping", ``, append(bearer, "Content-Type", ""), 200, `{"status":"ok"}`},
		{"POST", "/mcp/ping", `{}`, append(bearer, "Content-Type", ""), 415, `{"error":{"code":-32600,`},
		{"POST", "/mcp/ping", ``, append(bearer, "Content-Type", "text/plain"), 415, `{"error":{"code":-32600,`},
		{"POST", "/mcp/ping", `{}`, append(bearer, "Content-Type", "text/plain"), 415, `{"error":{"code":-32600,`},
		{"POST", "/mcp/ping", `{}`, append(bearer, "Content-Type", "application/json; charset=utf-8"), 200, `{"status":"ok"}`},
		{"POST", "/mcp/ping", `{}`, append(bearer, "Origin", "https://evil.example.com"), 403, `{"error":{"code":-32600,`},
		{"POST", "/mcp/ping", `{}`, nil, 401, `{"error":{"code":-32600,`},
		{"GET", "/mcp/tools/list", ``, bearer, 405, `{"error":{"code":-32600,`},
		{"PUT", "/mcp/tools/call", `{}`, bearer, 405, `{"error":{"code":-32600,`},
		{"GET", "/mcp/no/such", ``, bearer, 404, `{"error":{"code":-32601,`},
		{"POST", "/mcp/", `{"id":1,"method":"ping"}`, bearer, 200, `{"jsonrpc":"2.0","id":1,"result":{"status":"ok"}}`},
		{"POST", "/mcpx", `{}`, bearer, 404, `{"jsonrpc":"2.0","id":null,"error":`},
		{"GET", "/v1/mesh_scan", ``, nil, 401, `{"jsonrpc":"2.0","id":null,"error":`},
		{"GET", "/.well-known/oauth-protected-resource/mcp", ``, nil, 404, `{"jsonrpc":"2.0","id":null,"error":`}, // no OAuth here
		{"POST", "/v1/mesh_scan", `{}`, bearer, 405, `{"jsonrpc":"2.0","id":null,"error":`},
	} {
		response := w.do(test.method, test.path, test.body, test.header...)
		said, err := io.ReadAll(response.Body)
		response.Body.Close()
		if err != nil || response.StatusCode != test.status || !strings.HasPrefix(string(said), test.want) {
			t.Errorf("%s %s %q: %d %s", test.method, test.path, test.header, response.StatusCode, said)
		}
		if response.StatusCode == http.StatusMethodNotAllowed && response.Header.Get("Allow") == "" {
			t.Errorf("%s %s: 405 without Allow", test.method, test.path)
		}
	}
}

// Arguments that do not fit are an error of plain JSON-RPC, and in MCP a result for
// the model.
func TestMismatch(t *testing.T) {
	b := tool("a", "b")
	r := newFake(b)
	r.execute = func(_ context.Context, c selector.Call) (selector.Result, error) {
		return selector.Result{
			JSON: json.RawMessage(`{"content":[],"isError":true,"_meta":{"trace_id":"t"}}`), IsError: true,
			Mismatch: []string{"arguments.n: got string, want integer", "arguments: no: colon"},
		}, nil
	}
	w := serveWeb(t, r, Options{Mode: exposure.Direct}, HTTPOptions{})
	refused := `{"code":-32602,"message":"the arguments do not fit the schema of a:b: arguments.n: got string, want integer; arguments: no: colon","data":{"tool":"a:b","problems":[{"path":"arguments.n","expected":"got string, want integer"},{"path":"arguments","expected":"no: colon"}],"schema":` + string(b.InputSchema) + `,"_meta":{"trace_id":"t"}}}`
	ours := `{"code":-32602,"message":"the arguments do not fit the schema of find_tools: arguments: missing property 'query'","data":{"tool":"find_tools","problems":[{"path":"arguments","expected":"missing property 'query'"}],"schema":{`
	for _, test := range []struct{ call, refused string }{
		{`"name":"a__b","arguments":{"n":"x"}`, refused},
		{`"name":"call_tool","arguments":{"tool":"b","arguments":{"n":"x"}}`, refused},
		{`"name":"find_tools","arguments":{}`, ours},
	} {
		w.gets("plain", 200, `{"jsonrpc":"2.0","id":1,"error":`+test.refused, http.MethodPost, "/mcp", rpc("tools/call", test.call))
		w.gets("REST", 400, `{"error":`+test.refused, http.MethodPost, "/mcp/tools/call", "{"+test.call+"}")
		w.gets("session", 200, `"isError":true`, http.MethodPost, "/mcp", rpc("tools/call", test.call), w.session()...)
		name, _ := wire.String(wire.Member([]byte("{"+test.call+"}"), "name"))
		w.gets("modern", 200, `"isError":true`, http.MethodPost, "/mcp", rpc("tools/call", test.call+","+modernMeta), modernHeaders("tools/call", name)...)
	}
}

// Every form of a name is understood on every path, whatever the separator.
func TestSeparators(t *testing.T) {
	for _, separator := range []string{"__", ".", "-", "/"} {
		t.Run(separator, func(t *testing.T) {
			r := newFake(tool("dwo", "unit_convert"), tool("other", "x"))
			w := serveWeb(t, r, Options{Mode: exposure.Direct, Separator: separator}, HTTPOptions{})
			exposed := "dwo" + separator + "unit_convert"
			if _, list := w.text(http.MethodPost, "/mcp/tools/list", ``); !strings.Contains(list, `"name":"`+exposed+`"`) {
				t.Errorf("%s is not in %s", exposed, list)
			}
			c := initialized(t, r, Options{Mode: exposure.Search, Separator: separator})
			legacy := w.session()
			const want = `"tool":"dwo:unit_convert"`
			for _, name := range []string{exposed, "dwo:unit_convert", "dwo__unit_convert", "dwo.unit_convert", "unit_convert"} {
				call := fmt.Sprintf(`"name":%q,"arguments":{}`, name)
				wrapped := fmt.Sprintf(`"name":"call_tool","arguments":{"tool":%q,"arguments":{}}`, name)
				for path, answer := range map[string]func() (int, string){
					"plain":   func() (int, string) { return w.text(http.MethodPost, "/mcp", rpc("tools/call", call)) },
					"REST":    func() (int, string) { return w.text(http.MethodPost, "/mcp/tools/call", "{"+call+"}") },
					"session": func() (int, string) { return w.text(http.MethodPost, "/mcp", rpc("tools/call", call), legacy...) },
					"modern": func() (int, string) {
						return w.text(http.MethodPost, "/mcp", rpc("tools/call", call+","+modernMeta), modernHeaders("tools/call", name)...)
					},
					"call_tool": func() (int, string) { return w.text(http.MethodPost, "/mcp", rpc("tools/call", wrapped)) },
					"stdio":     func() (int, string) { return 200, c.ask(rpc("tools/call", call)) },
				} {
					if status, answer := answer(); status != 200 || !strings.Contains(answer, want) {
						t.Errorf("%s, %s: %d %s", path, name, status, answer)
					}
				}
				if _, answer := w.text(http.MethodPost, "/mcp/tools/call", fmt.Sprintf(`{"name":"describe_tools","arguments":{"ids":[%q]}}`, name)); !strings.Contains(answer, `"id":"dwo:unit_convert"`) {
					t.Errorf("describe_tools %s: %s", name, answer)
				}
			}
		})
	}
}

// What no server has answered says how it was run, too.
func TestOwnMeta(t *testing.T) {
	r := newFake(tool("a", "b"))
	r.ranking = selector.Ranking{Candidates: candidates(r.Tools()...)}
	r.servers = []status.Server{info("a", "ready", 1), info("down", "failed", 0)}
	w := serveWeb(t, r, Options{Mode: exposure.Direct, Version: "1.2.3"}, HTTPOptions{})
	header := w.session()
	for _, test := range []struct {
		name, arguments, server, tool, version string
		checked                                bool
		attempts                               int
	}{
		{"find_tools", `{"query":"x"}`, "metarouter", "find_tools", "1.2.3", true, 1},
		{"find_tools", `{}`, "metarouter", "find_tools", "1.2.3", false, 1},
		{"describe_tools", `{"ids":["a:b"]}`, "metarouter", "describe_tools", "1.2.3", true, 1},
		{"route_task", `{"task":"x"}`, "metarouter", "route_task", "1.2.3", true, 1},
		{"read_result", `{"uri":"x:y"}`, "metarouter", "read_result", "1.2.3", true, 1},
		{"call_tool", `{"tool":"nothing"}`, "metarouter", "call_tool", "1.2.3", true, 1},
		{"down.thing", `{}`, "down", "thing", "", false, 0},
	} {
		call := fmt.Sprintf(`"name":%q,"arguments":%s,"_meta":{"traceparent":"00-0123456789abcdef0123456789abcdef-0123456789abcdef-01"}`, test.name, test.arguments)
		_, answer := w.text(http.MethodPost, "/mcp", rpc("tools/call", call), header...)
		var said struct {
			Result struct {
				Meta struct {
					Trace     string   `json:"trace_id"`
					Tool      string   `json:"tool_name"`
					Version   *string  `json:"tool_version"`
					Server    string   `json:"server"`
					Node      string   `json:"node_id"`
					Path      []string `json:"execution_path"`
					Verified  *bool    `json:"verified"`
					Checked   *bool    `json:"arguments_checked"`
					Degraded  *bool    `json:"degraded"`
					Attempts  *int     `json:"attempts"`
					Latency   *int     `json:"latency_ms"`
					Timestamp string   `json:"timestamp"`
				} `json:"_meta"`
			} `json:"result"`
		}
		expect.OK(t, json.Unmarshal([]byte(answer), &said), "%s", answer)
		m := said.Result.Meta
		if m.Trace != "0123456789abcdef0123456789abcdef" || m.Tool != test.tool || m.Version == nil || *m.Version != test.version || m.Server != test.server ||
			m.Node != execute.Node() || len(m.Path) != 1 || m.Path[0] != "local" || m.Verified == nil || *m.Verified || m.Checked == nil || *m.Checked != test.checked ||
			m.Degraded == nil || *m.Degraded || m.Attempts == nil || *m.Attempts != test.attempts || m.Latency == nil || m.Timestamp == "" {
			t.Errorf("%s %s: %s", test.name, test.arguments, answer)
		}
	}
	// What a server's tool says of its run stays as it is.
	r.execute = answering(`{"content":[],"_meta":{"tool_name":"b"}}`)
	if status, answer := w.text(http.MethodPost, "/mcp/tools/call", `{"name":"call_tool","arguments":{"tool":"b"}}`); answer != `{"content":[],"_meta":{"tool_name":"b"},"isError":false}` {
		t.Errorf("%d %s", status, answer)
	}
}

func TestMeshScan(t *testing.T) {
	r := newFake(tool("a", "b"))
	failed := info("c", "failed", 0)
	failed.LastError, failed.Restarts = "no licence", 3
	r.servers = []status.Server{info("a", "ready", 1), failed}
	w := serveWeb(t, r, Options{Mode: exposure.Direct, Version: "1.2.3"}, HTTPOptions{})
	status, answer := w.text(http.MethodGet, "/v1/mesh_scan", ``)
	var said struct{ Nodes []meshNode }
	if err := json.Unmarshal([]byte(answer), &said); err != nil || status != 200 || len(said.Nodes) != 1 {
		t.Fatalf("%d %s", status, answer)
	}
	n := said.Nodes[0]
	if n.NodeID != execute.Node() || n.Version != "1.2.3" || n.Status != "ok" || n.Mode != exposure.Direct || n.URL != "http://localhost/mcp" || n.Tools != 1 {
		t.Errorf("node %+v", n)
	}
	if len(n.Servers) != 2 || n.Servers[0].State != "ready" || n.Servers[1] != (exposure.ServerRow{Name: "c", State: "failed", Restarts: 3, LastError: "no licence"}) {
		t.Errorf("servers %+v", n.Servers)
	}
	expect.Contains(t, answer, `{"name":"c","state":"failed","transport":"","era":"","protocol_version":"","tools":0,"pid":0,"restarts":3,"last_error":"no licence"}`)
}

// FuzzRest sends arbitrary bodies in the style of REST: whatever is answered is JSON,
// and an error has a code.
func FuzzRest(f *testing.F) {
	h := fuzzed(f)
	for _, body := range []string{``, `null`, `{}`, `[]`, `{"params":{}}`, `{"method":"","params":{"name":"a__b","arguments":{"n":1}}}`, `{"name":"a__b"}`, `{"jsonrpc":"2.0","id":1,"method":"ping"}`, `{"id":1}`} {
		for _, method := range []string{"ping", "initialize", "tools/call", "tools/list", "resources/subscribe", "notifications/x", "no/such"} {
			f.Add(method, body)
		}
	}
	f.Fuzz(func(t *testing.T, method, body string) {
		r := posted(t.Context(), body, "")
		r.URL.Path = "/mcp/" + method
		if strings.Trim(method, "/") == "" {
			return
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code == http.StatusAccepted && w.Body.Len() == 0 {
			return
		}
		var answer struct {
			Error *struct{ Code *int }
		}
		expect.OK(t, json.Unmarshal(w.Body.Bytes(), &answer), "%q", w.Body)
		if w.Code != http.StatusOK && (answer.Error == nil || answer.Error.Code == nil) {
			t.Errorf("%d %s", w.Code, w.Body)
		}
	})
}

// A client that takes JSON alone gets it, whether it sends its revision or not.
func TestJSONAlone(t *testing.T) {
	w := serveWeb(t, newFake(tool("a", "b")), Options{Mode: exposure.Direct}, HTTPOptions{})
	for _, header := range [][]string{nil, {"Mcp-Protocol-Version", "2024-11-05"}, {"Mcp-Protocol-Version", "2025-03-26"}, {"Mcp-Protocol-Version", "2025-06-18"}, {"MCP-Protocol-Version", "2025-11-25"}} {
		header = append(header, "Accept", "application/json")
		w.gets("initialize", http.StatusOK, `"serverInfo"`, http.MethodPost, "/mcp", rpc("initialize", `"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c","version":"1"}`), header...)
		w.gets("tools/list", http.StatusOK, `"a__b"`, http.MethodPost, "/mcp", rpc("tools/list", ""), header...)
	}
	w.gets("a modern request", http.StatusNotAcceptable, "must accept", http.MethodPost, "/mcp", rpc("tools/list", modernMeta), append(modernHeaders("tools/list", ""), "Accept", "application/json")...)
}

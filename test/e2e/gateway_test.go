//go:build unix

package e2e

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
)

// Plain HTTP clients, with a real server behind the router.
func TestGateway(t *testing.T) {
	t.Parallel()
	utilities := map[string]any{"command": metarouter, "args": []string{"builtin", "utilities"}}
	lax := map[string]any{"command": metarouter, "args": []string{"builtin", "utilities"}, "validate": "off"}
	s := prepare(t, entries{"dwo": utilities, "lax": lax}, map[string]any{"mode": "direct", "listWait": "60s", "separator": ".", "gateway": map[string]any{"name": "gateway", "prefix": "gw."}})
	url, _ := s.serveHTTP()
	send := func(method, path, body string) (status int, answer string) {
		t.Helper()
		response, answer := sendJSON(t, nil, method, strings.TrimSuffix(url, "/mcp")+path, nil, body)
		return response.StatusCode, answer
	}
	const good, bad = `"arguments":{"value":5,"from_unit":"km","to_unit":"mi"}`, `"arguments":{"value":"many","from_unit":"km","to_unit":"mi"}`
	for _, test := range []struct {
		path, body string
		status     int
		want       []string
	}{
		{"/mcp/tools/list", ``, 200, []string{`{"tools":[`, `"name":"dwo.unit_convert"`}},
		{"/mcp/tools/call", `{"name":"dwo.unit_convert",` + good + `}`, 200, []string{`3.1068`, `"trace_id":"`, `"server":"dwo"`, `"verified":false`, `"arguments_checked":true`}},
		{"/mcp/tools/call", `{"method":"","params":{"name":"dwo__unit_convert",` + good + `}}`, 200, []string{`3.1068`, `"execution_path":["local"`}},
		{"/mcp", `{"id":1,"method":"tools/call","params":{"name":"dwo:unit_convert",` + good + `}}`, 200, []string{`"id":1,"result":{`, `3.1068`, `"attempts":1`}},
		{"/mcp", `[{"id":1,"method":"tools/call","params":{"name":"dwo.unit_convert",` + good + `}},{"id":2,"method":"ping"}]`, 200, []string{`[{"jsonrpc":"2.0","id":1,"result":{`, `3.1068`, `{"jsonrpc":"2.0","id":2,"result":{"status":"ok"}}]`}},
		{"/mcp", `{"id":1,"method":"tools/call","params":{"name":"dwo.unit_convert",` + bad + `}}`, 200, []string{`"id":1,"error":{"code":-32602,`, `"path":"arguments.value"`, `"schema":{`, `"arguments_checked":false`}},
		{"/mcp/tools/call", `{"name":"dwo.unit_convert",` + bad + `}`, 400, []string{`{"error":{"code":-32602,`, `"path":"arguments.value"`}},
		{"/mcp/tools/call", `{"name":"gw.dwo.unit_convert",` + good + `}`, 200, []string{`3.1068`, `"isError":false`}},
		{"/mcp", `{"id":1,"method":"tools/call","params":{"name":"gw.dwo__unit_convert",` + good + `}}`, 200, []string{`3.1068`, `"isError":false`}},
		{"/mcp", `{"id":1,"method":"tools/call","params":{"name":"g.dwo__unit_convert",` + good + `}}`, 200, []string{`unknown tool`}},
		{"/mcp/initialize", ``, 200, []string{`"serverInfo":{"name":"gateway","version":"`, `"sessionId":"plain-`}},
		{"/mcp/tools/call", `{"name":"find_tools","arguments":{"query":"convert units"}}`, 200, []string{`dwo:unit_convert`, `"server":"metarouter"`, `"tool_name":"find_tools"`}},
	} {
		status, answer := send(http.MethodPost, test.path, test.body)
		for _, want := range test.want {
			if status != test.status || !strings.Contains(answer, want) {
				t.Errorf("%s %s: %d %.600s\nlacks %s", test.path, test.body, status, answer, want)
			}
		}
	}
	// Where nothing is validated, the server itself says what it thinks of it.
	if status, answer := send(http.MethodPost, "/mcp/tools/call", `{"name":"lax.unit_convert",`+bad+`}`); strings.Contains(answer, "do not fit the schema of") {
		t.Errorf("%d %s", status, answer)
	}
	status, answer := send(http.MethodGet, "/v1/mesh_scan", "")
	var mesh struct {
		Nodes []struct {
			ID      string `json:"node_id"`
			URL     string
			Servers []struct{ Name, State, Transport string }
		}
	}
	if err := json.Unmarshal([]byte(answer), &mesh); err != nil || status != 200 || len(mesh.Nodes) != 1 || len(mesh.Nodes[0].Servers) != 2 {
		t.Fatalf("%d %s", status, answer)
	}
	if n := mesh.Nodes[0]; n.ID == "" || n.URL != url || n.Servers[0].Name != "dwo" || n.Servers[0].State != "ready" || n.Servers[0].Transport != "stdio" {
		t.Errorf("%+v", n)
	}
}

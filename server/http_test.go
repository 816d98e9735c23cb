package server

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/exposure"
	"github.com/mcp-metarouter/metarouter/internal/status"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

// gets wants the answer to a request to have the status and the part.
func (w *web) gets(what string, status int, part, method, path, body string, header ...string) {
	w.t.Helper()
	if got, answer := w.text(method, path, body, header...); got != status || !strings.Contains(answer, part) {
		w.t.Errorf("%s: %d %.300s, want %d and %q", what, got, answer, status, part)
	}
}

// Each request stands for itself, with the status that proxies go by.
func TestDispatch(t *testing.T) {
	w := serveWeb(t, newFake(tool("a", "b")), Options{Mode: exposure.Direct}, HTTPOptions{MaxBody: 10_000})
	legacy := w.session()
	list := rpc("tools/list", modernMeta)
	call := rpc("tools/call", `"name":"a__b","arguments":{},`+modernMeta)
	newer := strings.ReplaceAll(list, modernVersion, "2099-01-01")
	for name, test := range map[string]struct {
		body   string
		header []string
		status int
		want   string
	}{
		"modern":                     {list, modernHeaders("tools/list", ""), 200, `{"jsonrpc":"2.0","id":1,"result":{"tools":[`},
		"modern, many lines":         {strings.ReplaceAll(call, ",", ",\r\n"), modernHeaders("tools/call", "a__b"), 200, `{"jsonrpc":"2.0","id":1,"result":{"content":[],"tool":"a:b"`},
		"name in base64":             {call, modernHeaders("tools/call", "=?base64?YV9fYg==?="), 200, `{"jsonrpc":"2.0","id":1,"result":`},
		"name in bad base64":         {call, modernHeaders("tools/call", "=?base64?YV9fYg?="), 400, `{"jsonrpc":"2.0","id":1,"error":{"code":-32020,`},
		"no version header":          {list, both, 400, `{"jsonrpc":"2.0","id":1,"error":{"code":-32020,`},
		"other version header":       {list, append(both, "Mcp-Protocol-Version", "2025-11-25"), 400, `{"jsonrpc":"2.0","id":1,"error":{"code":-32020,`},
		"unknown version":            {newer, append(modernHeaders("tools/list", ""), "Mcp-Protocol-Version", "2099-01-01"), 400, `{"jsonrpc":"2.0","id":1,"error":{"code":-32022,`},
		"unknown old version":        {initializing, append(both, "Mcp-Protocol-Version", "1999-01-01"), 400, `{"jsonrpc":"2.0","id":"init","error":{"code":-32022,`},
		"no method header":           {list, append(both, "Mcp-Protocol-Version", modernVersion), 400, `{"jsonrpc":"2.0","id":1,"error":{"code":-32020,`},
		"other method header":        {list, modernHeaders("tools/call", ""), 400, `{"jsonrpc":"2.0","id":1,"error":{"code":-32020,`},
		"no name header":             {call, modernHeaders("tools/call", ""), 400, `{"jsonrpc":"2.0","id":1,"error":{"code":-32020,`},
		"other name header":          {call, modernHeaders("tools/call", "a__c"), 400, `{"jsonrpc":"2.0","id":1,"error":{"code":-32020,`},
		"no _meta":                   {rpc("tools/list", ""), modernHeaders("tools/list", ""), 400, `{"jsonrpc":"2.0","id":1,"error":{"code":-32602,`},
		"no _meta and no headers":    {rpc("tools/list", ""), both, 400, `{"jsonrpc":"2.0","id":1,"error":{"code":-32602,`},
		"no capabilities":            {rpc("tools/list", `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}`), modernHeaders("tools/list", ""), 400, `{"jsonrpc":"2.0","id":1,"error":{"code":-32602,`},
		"unknown method":             {rpc("no/such", modernMeta), modernHeaders("no/such", ""), 404, `{"jsonrpc":"2.0","id":1,"error":{"code":-32601,`},
		"ping is gone":               {rpc("ping", modernMeta), modernHeaders("ping", ""), 404, `{"jsonrpc":"2.0","id":1,"error":{"code":-32601,`},
		"initialize is gone":         {rpc("initialize", modernMeta), modernHeaders("initialize", ""), 404, `{"jsonrpc":"2.0","id":1,"error":{"code":-32601,`},
		"unknown tool":               {strings.ReplaceAll(call, "a__b", "x"), modernHeaders("tools/call", "x"), 200, `{"jsonrpc":"2.0","id":1,"error":{"code":-32602,`},
		"modern notification":        {`{"jsonrpc":"2.0","method":"notifications/x"}`, modernHeaders("notifications/x", ""), 202, ``},
		"modern response":            {`{"jsonrpc":"2.0","id":1,"result":{}}`, modernHeaders("", ""), 400, `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,`},
		"legacy":                     {rpc("tools/list", ""), legacy, 200, `{"jsonrpc":"2.0","id":1,"result":{"tools":[`},
		"legacy ping":                {rpc("ping", ""), legacy, 200, `{"jsonrpc":"2.0","id":1,"result":{}}`},
		"legacy error":               {rpc("no/such", ""), legacy, 200, `{"jsonrpc":"2.0","id":1,"error":{"code":-32601,`},
		"legacy notification":        {`{"jsonrpc":"2.0","method":"notifications/initialized"}`, legacy, 202, ``},
		"legacy response":            {`{"jsonrpc":"2.0","id":1,"result":{}}`, legacy, 202, ``},
		"initialized already":        {initializing, legacy, 200, `{"jsonrpc":"2.0","id":"init","error":{"code":-32600,`},
		"without session":            {rpc("ping", ""), both, 400, `{"jsonrpc":"2.0","id":1,"error":{"code":-32600,`},
		"notification, no session":   {`{"jsonrpc":"2.0","method":"notifications/x"}`, both, 400, `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,`},
		"unknown session":            {rpc("ping", ""), append(both, "Mcp-Session-Id", "x"), 404, `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,`},
		"unknown version in session": {rpc("ping", ""), append(legacy, "Mcp-Protocol-Version", "2025-01-01"), 400, `{"jsonrpc":"2.0","id":1,"error":{"code":-32022,`},
		"no stream accepted":         {rpc("ping", ""), append(legacy, "Accept", "application/json"), 406, `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,`},
		"anything accepted":          {rpc("ping", ""), append(legacy, "Accept", "*/*"), 200, `{"jsonrpc":"2.0","id":1,"result":{}}`},
		"no JSON":                    {`{`, both, 400, `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,`},
		"no body":                    {``, both, 400, `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,`},
		"batch":                      {`[` + list + `]`, both, 400, `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,`},
		"form":                       {list, append(both, "Content-Type", "text/plain"), 415, `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,`},
		"too long":                   {rpc("ping", `"x":"`+strings.Repeat("x", 10_000)+`"`), both, 413, `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,`},
	} {
		t.Run(name, func(t *testing.T) {
			status, answer := w.text(http.MethodPost, "/mcp", test.body, test.header...)
			if status != test.status || !strings.HasPrefix(answer, test.want) {
				t.Errorf("%d %s\nwant %d %s…", status, answer, test.status, test.want)
			}
		})
	}
}

// A client that names event streams before JSON gets one, as the conformance suite wants.
func TestStreamNamedFirst(t *testing.T) {
	w := serveWeb(t, newFake(), Options{}, HTTPOptions{})
	response := w.do(http.MethodPost, "/mcp", rpc("ping", ""), append(w.session(), "Accept", "text/event-stream, application/json")...)
	response.Body.Close()
	expect.Equal(t, response.Header.Get("Content-Type"), "text/event-stream", "the type of the answer")
}

// Plain JSON-RPC knows nothing of sessions, headers and streams.
func TestPlain(t *testing.T) {
	w := serveWeb(t, newFake(tool("a", "b")), Options{Mode: exposure.Direct}, HTTPOptions{MaxBody: 10_000})
	for name, test := range map[string]struct {
		body   string
		status int
		want   string
	}{
		"ping":          {`{"id":1,"method":"ping"}`, 200, `{"jsonrpc":"2.0","id":1,"result":{"status":"ok"}}`},
		"initialize":    {`{"jsonrpc":"2.0","id":1,"method":"initialize"}`, 200, `{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-03-26"`},
		"list":          {`{"id":1,"method":"tools/list"}`, 200, `{"jsonrpc":"2.0","id":1,"result":{"tools":[`},
		"call":          {`{"id":"x","method":"tools/call","params":{"name":"a__b","arguments":{"n":1}}}`, 200, `{"jsonrpc":"2.0","id":"x","result":{"content":[],"tool":"a:b","arguments":{"n":1},"isError":false}}`},
		"modern":        {rpc("tools/list", modernMeta), 200, `{"jsonrpc":"2.0","id":1,"result":{"tools":[`},
		"listen":        {rpc("subscriptions/listen", modernMeta), 200, `{"jsonrpc":"2.0","id":1,"error":{"code":-32600,`},
		"unknown":       {`{"id":1,"method":"no/such"}`, 200, `{"jsonrpc":"2.0","id":1,"error":{"code":-32601,`},
		"bad params":    {`{"id":1,"method":"tools/call","params":[]}`, 200, `{"jsonrpc":"2.0","id":1,"error":{"code":-32602,`},
		"no method":     {`{"id":1}`, 200, `{"jsonrpc":"2.0","id":1,"error":{"code":-32600,`},
		"null params":   {`{"id":1,"method":"tools/list","params":null}`, 200, `{"jsonrpc":"2.0","id":1,"result":{"tools":[`},
		"text params":   {`{"id":1,"method":"tools/list","params":"x"}`, 200, `{"jsonrpc":"2.0","id":1,"error":{"code":-32602,`},
		"discover":      {`{"id":1,"method":"server/discover"}`, 200, `{"jsonrpc":"2.0","id":1,"result":{"supportedVersions":[`},
		"no tool":       {`{"id":1,"method":"tools/call","params":{"name":"a__c"}}`, 200, `{"jsonrpc":"2.0","id":1,"error":{"code":-32602,`},
		"fraction id":   {`{"id":1.50,"method":"ping"}`, 200, `{"jsonrpc":"2.0","id":1.50,"result":{"status":"ok"}}`},
		"object id":     {`{"id":{},"method":"ping"}`, 200, `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,`},
		"number method": {`{"id":1,"method":1}`, 200, `{"jsonrpc":"2.0","id":1,"error":{"code":-32600,`},
		"null version":  {`{"jsonrpc":null,"id":1,"method":"ping"}`, 200, `{"jsonrpc":"2.0","id":1,"error":{"code":-32600,`},
		"many lines":    {"{\"id\":1,\r\n\"method\":\"ping\"}", 200, `{"jsonrpc":"2.0","id":1,"result":{"status":"ok"}}`},
		"line in text":  {"{\"id\":\"\n\",\"method\":\"ping\"}", 400, `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,`},
		"no body":       {``, 400, `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,`},
		"response":      {`{"id":1,"result":{}}`, 202, ``},
		"no text":       {"{\"id\":\"\xff\",\"method\":\"ping\"}", 400, `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,`},
		"no JSON":       {`ping`, 400, `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,`},
		"notification":  {`{"method":"notifications/initialized"}`, 202, ``},
		"null id":       {`{"id":null,"method":"ping"}`, 200, `{"jsonrpc":"2.0","id":null,"result":{"status":"ok"}}`},
		"null id, told": {`{"id":null,"method":"notifications/initialized"}`, 202, ``},
		"positional":    {`{"id":1,"method":"no/such","params":[1]}`, 200, `{"jsonrpc":"2.0","id":1,"error":{"code":-32601,`},
		"long method":   {`{"id":1,"method":"` + strings.Repeat("x", 9_000) + `"}`, 200, `{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"method not found: ` + strings.Repeat("x", 200) + `"}}`},
		"wrong version": {`{"jsonrpc":"1.0","id":1,"method":"ping"}`, 200, `{"jsonrpc":"2.0","id":1,"error":{"code":-32600,`},
		"too long":      {`{"id":1,"method":"ping","x":"` + strings.Repeat("x", 10_000) + `"}`, 413, `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,`},
	} {
		for _, accept := range []string{"*/*", "application/json"} {
			status, answer := w.text(http.MethodPost, "/mcp", test.body, "Accept", accept)
			if status != test.status || !strings.HasPrefix(answer, test.want) {
				t.Errorf("%s: %d %s\nwant %d %s…", name, status, answer, test.status, test.want)
			}
		}
	}
}

func TestOtherRoutes(t *testing.T) {
	r := newFake(tool("a", "b"))
	r.servers = []status.Server{info("a", "ready", 1), info("c", "failed", 0)}
	w := serveWeb(t, r, Options{Mode: exposure.Direct}, HTTPOptions{})
	for _, test := range []struct {
		method, path string
		status       int
		want         string
	}{
		{"GET", "/health", 200, `{"status":"ok","categories":["math","history"],"model":"default","index_size":1,"servers":2,"tools":1}`},
		{"GET", "/", 404, `{"jsonrpc":"2.0","id":null,"error":`},
		{"GET", "/mcp", 405, `{"jsonrpc":"2.0","id":null,"error":`},
		{"DELETE", "/mcp", 405, `{"jsonrpc":"2.0","id":null,"error":`},
		{"PUT", "/mcp", 405, `{"jsonrpc":"2.0","id":null,"error":`},
		{"HEAD", "/health", 200, ``},
		{"POST", "/health", 405, `{"jsonrpc":"2.0","id":null,"error":`},
		{"HEAD", "/v1/mesh_scan", 200, ``},
	} {
		response := w.do(test.method, test.path, "")
		answer, _ := io.ReadAll(response.Body)
		response.Body.Close()
		if response.StatusCode != test.status || !strings.HasPrefix(string(answer), test.want) || (test.status == 405) != (response.Header.Get("Allow") != "") {
			t.Errorf("%s %s: %d %q %s", test.method, test.path, response.StatusCode, response.Header, answer)
		}
	}
	w.gets("PUT with a body", 405, "", "PUT", "/mcp", "{}")
}

// Who comes by a strange name, from a strange page or without a token stays out.
func TestDoor(t *testing.T) {
	w := serveWeb(t, newFake(), Options{}, HTTPOptions{
		Bound: "192.0.2.1:8787", AllowedHosts: []string{"Router.example.com", "other.example.com:443"},
		AllowedOrigins: []string{"https://app.example.com"}, Tokens: tokens("one", "two"),
	})
	bearer := []string{"Authorization", "Bearer two"}
	for _, test := range []struct {
		header []string
		status int
	}{
		{bearer, 200},
		{[]string{"Authorization", "bearer one"}, 200},
		{[]string{"Authorization", "Bearer three"}, 401},
		{[]string{"Authorization", "Basic two"}, 401},
		{[]string{"Authorization", "Bearer "}, 401},
		{nil, 401},
		{append(bearer, "Host", "127.1.2.3:99"), 200},
		{append(bearer, "Host", "[::1]:99"), 200},
		{append(bearer, "Host", "[::1]"), 200},
		{append(bearer, "Host", "192.0.2.1"), 200},
		{append(bearer, "Host", "192.0.2.2"), 403},
		{append(bearer, "Host", "router.example.com:1"), 200},
		{append(bearer, "Host", "other.example.com:443"), 200},
		{append(bearer, "Host", "other.example.com:444"), 403},
		{append(bearer, "Host", "localhost.example.com"), 403},
		{append(bearer, "Origin", "http://localhost:3000"), 200},
		{append(bearer, "Origin", "https://app.example.com"), 200},
		{append(bearer, "Origin", "http://app.example.com"), 403},
		{append(bearer, "Origin", "https://router.example.com"), 200},
		{append(bearer, "Origin", "https://evil.example.com"), 403},
		{append(bearer, "Origin", "null"), 403},
	} {
		if status, answer := w.text(http.MethodPost, "/mcp", `{"id":1,"method":"ping"}`, test.header...); status != test.status {
			t.Errorf("%q: %d %s", test.header, status, answer)
		}
	}
	if status, answer := w.text(http.MethodGet, "/health", ""); status != 200 || answer != `{"status":"ok"}` {
		t.Errorf("health: %d %s", status, answer)
	}
	expect.Equal(t, w.do(http.MethodHead, "/health", "").StatusCode, 200, "health's head")
	if response := w.do(http.MethodPost, "/mcp", "{}"); response.Header.Get("WWW-Authenticate") != "Bearer" {
		t.Error("401 without a challenge")
	} else {
		response.Body.Close()
	}
	// A session is its owner's alone.
	header := w.session(bearer...)
	w.gets("another's session", 404, "", http.MethodPost, "/mcp", rpc("ping", ""), append(header, "Authorization", "Bearer one")...)
	w.gets("own session", 200, "", http.MethodPost, "/mcp", rpc("ping", ""), header...)
}

// What a schema wants in headers must be there as in the arguments.
func TestParamHeaders(t *testing.T) {
	b := tool("a", "b")
	b.InputSchema = json.RawMessage(`{"type":"object","properties":{"r":{"type":"string","x-mcp-header":"Region"},"in":{"type":"object","properties":{"n":{"type":"integer","x-mcp-header":"N"},"ok":{"type":"boolean","x-mcp-header":"Ok"}}}}}`)
	w := serveWeb(t, newFake(b), Options{Mode: exposure.Direct}, HTTPOptions{})
	for _, test := range []struct {
		args   string
		header []string
		status int
	}{
		{`{}`, nil, 200},
		{`{"r":null}`, nil, 200},
		{`{"r":"eu"}`, []string{"Mcp-Param-Region", "eu"}, 200},
		{`{"r":"ü"}`, []string{"mcp-param-region", "=?base64?w7w=?="}, 200},
		{`{"r":"ü"}`, []string{"mcp-param-region", "=?base64?w7w?="}, 400},
		{`{"r":"eu"}`, nil, 400},
		{`{"r":"eu"}`, []string{"Mcp-Param-Region", "us"}, 400},
		{`{}`, []string{"Mcp-Param-Region", "us"}, 400},
		{`{"in":{"n":42,"ok":true}}`, []string{"Mcp-Param-N", "42.0", "Mcp-Param-Ok", "true"}, 200},
		{`{"in":{"n":42,"ok":true}}`, []string{"Mcp-Param-N", "42", "Mcp-Param-Ok", "false"}, 400},
		{`{"in":{"n":42}}`, []string{"Mcp-Param-N", "x"}, 400},
		{`{"in":{"n":9007199254740993}}`, []string{"Mcp-Param-N", "9007199254740993"}, 400},
		{`{"in":{"n":[]}}`, []string{"Mcp-Param-N", "1"}, 400},
		{`{"r":"eu"}`, []string{"Mcp-Param-Region", "eu", "Mcp-Param-Other", "x"}, 200},
	} {
		body := rpc("tools/call", `"name":"a__b","arguments":`+test.args+`,`+modernMeta)
		status, answer := w.text(http.MethodPost, "/mcp", body, append(modernHeaders("tools/call", "a__b"), test.header...)...)
		if status != test.status || status == 400 && !strings.Contains(answer, `"code":-32020`) {
			t.Errorf("%s with %q: %d %s", test.args, test.header, status, answer)
		}
	}
}

// Clients that stall within a body lose their connections soon, and keep no one else's calls
// from being answered, even if they hold all memory for bodies.
func TestStalledBodies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := serveWeb(t, newFake(tool("a", "b")), Options{Mode: exposure.Direct}, HTTPOptions{MaxBodyMemory: 110_000})
		stalled := make(chan string, 2)
		for range 2 {
			conn, err := w.dial(t.Context(), "", "")
			expect.OK(t, err)
			defer conn.Close()
			io.WriteString(conn, "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 60000\r\n\r\n"+strings.Repeat(" ", 33_000))
			go func() {
				began := time.Now()
				answer, _ := io.ReadAll(conn)
				head, _, _ := strings.Cut(string(answer), "\r\n")
				stalled <- head + " " + time.Since(began).String()
			}()
		}
		synctest.Wait()
		call := `{"id":1,"method":"tools/call","params":{"name":"a__b","arguments":{"n":"`
		for _, path := range []string{"/mcp", "/mcp/tools/call"} {
			large := w.do(http.MethodPost, path, call+strings.Repeat("x", 20_000)+`"}}}`)
			large.Body.Close()
			if large.StatusCode != http.StatusServiceUnavailable || large.Header.Get("Retry-After") == "" {
				t.Errorf("%s: %d %v", path, large.StatusCode, large.Header)
			}
			if status, answer := w.text(http.MethodPost, path, call+`"}}}`); status != 200 {
				t.Errorf("%s: a small call gets %d %s", path, status, answer)
			}
		}
		for range 2 {
			expect.Equal(t, <-stalled, "HTTP/1.1 408 Request Timeout 17.32434082s")
		}
		w.gets("afterwards a large call gets", 200, "", http.MethodPost, "/mcp", call+strings.Repeat("x", 20_000)+`"}}}`)
	})
}

package server

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/mcp-metarouter/metarouter/internal/content"
	"github.com/mcp-metarouter/metarouter/internal/execute"
	"github.com/mcp-metarouter/metarouter/internal/exposure"
	"github.com/mcp-metarouter/metarouter/internal/status"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/selector"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

// A notebook notes what it is told.
type notebook struct {
	mu     sync.Mutex     // guards what follows
	spared map[string]int // tokens, by the reason
	called []selector.Execution
}

func (n *notebook) ListSpared(tokens int)   { n.spare("list", tokens) }
func (n *notebook) ResultSpared(tokens int) { n.spare("result", tokens) }

func (n *notebook) spare(reason string, tokens int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.spared == nil {
		n.spared = make(map[string]int)
	}
	n.spared[reason] += tokens
}

func (n *notebook) Executed(e selector.Execution) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.called = append(n.called, e)
}

func (n *notebook) Searched(selector.Search) {}

const listTools = `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`

// Our own tools have spans, too, above those of the calls that they make.
func TestSpansOfOwnTools(t *testing.T) {
	recorder := tracetest.NewSpanRecorder()
	var inner trace.SpanContext
	r := newFake(tool("a", "b"))
	r.execute = func(ctx context.Context, _ selector.Call) (selector.Result, error) {
		inner = trace.SpanContextFromContext(ctx)
		return selector.Result{JSON: json.RawMessage(`{"content":[],"_meta":{"metarouter/script":"of a server"}}`)}, nil
	}
	c := initialized(t, r, Options{Mode: exposure.Search, Tracer: sdk.NewTracerProvider(sdk.WithSpanProcessor(recorder)).Tracer("test")})
	const of, parent = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
	for i, call := range []string{`"name":"find_tools","arguments":{"query":"x"}`, `"name":"call_tool","arguments":{"tool":"a:b","arguments":{}}`} {
		answer := c.ask(rpc("tools/call", call+`,"_meta":{"traceparent":"00-`+of+"-"+parent+`-01"}`))
		ended := recorder.Ended()
		if len(ended) != i+1 {
			t.Fatalf("%d spans after %s", len(ended), answer)
		}
		span := ended[i]
		if name := strings.Split(call, `"`)[3]; span.Name() != "tools/call "+name || span.SpanKind() != trace.SpanKindServer || span.Parent().SpanID().String() != parent || span.SpanContext().TraceID().String() != of {
			t.Errorf("%s has the span %s of the kind %s below %v", name, span.Name(), span.SpanKind(), span.Parent())
		}
		if i == 0 && !strings.Contains(answer, `"trace_id":"`+of+`"`) {
			t.Errorf("answered %s", answer)
		}
		if shown := fmt.Sprint(span.Attributes(), span.Status(), span.Events()); strings.Contains(shown, "held") || strings.Contains(shown, "not_approved") {
			t.Errorf("a server's call is held: %s", shown)
		}
		if i == 1 && inner.SpanID() != span.SpanContext().SpanID() {
			t.Errorf("the call is made in %v", inner)
		}
	}
}

// A list in search mode spares what the definitions of all tools would have cost beyond
// it, once for each list; a list of all spares nothing.
func TestSearchModeSaves(t *testing.T) {
	var tools []registry.NormalizedTool
	for i := range 500 {
		tools = append(tools, tool("s", fmt.Sprint("tool", i)))
	}
	all := 0
	for _, t := range tools {
		all += len(t.Definition)
	}
	var told notebook
	c := initialized(t, newFake(tools...), Options{Mode: exposure.Search, Savings: &told})
	m, err := wire.Parse([]byte(c.ask(listTools)))
	expect.OK(t, err)
	shown := 0
	wire.Elements(wire.Member(m.Result, "tools"), func(definition []byte) bool {
		shown += len(definition)
		return true
	})
	if want := all/content.TokenBytes - shown/content.TokenBytes; told.spared["list"] != want || want <= 0 {
		t.Errorf("told of %d tokens, want %d", told.spared["list"], want)
	}
	c.ask(`{"jsonrpc":"2.0","id":2,"method":"prompts/list"}`)
	before := told.spared["list"]
	c.ask(listTools)
	expect.Equal(t, told.spared["list"], 2*before, "told of … tokens after two lists")

	var direct notebook
	c = initialized(t, newFake(tools...), Options{Mode: exposure.Direct, Savings: &direct})
	c.ask(listTools)
	if direct.spared != nil {
		t.Errorf("told of %v in direct mode", direct.spared)
	}
}

func TestResultLimitSaves(t *testing.T) {
	var told notebook
	c := initialized(t, long(strings.Repeat("x", 4000), 100), Options{Mode: exposure.Direct, Savings: &told})
	r := c.result(t, `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"a__b"}}`)
	expect.Equal(t, told.spared["result"], (4004-len(r.Content[0].Text))/content.TokenBytes, "told of %v tokens", told.spared)
}

// Observers learn of a call of a server that can't be reached and has never said what tools it has, and of one of a tool
// that nobody has.
func TestUnreachedIsObserved(t *testing.T) {
	for name, test := range map[string]struct{ server, fault string }{"down__x": {"down", "no licence"}, "made up": {"", "made up"}} {
		r := newFake(tool("s", "t"))
		r.servers = append(r.servers, info("down", status.Failed, 0))
		var told notebook
		c := initialized(t, r, Options{Mode: exposure.Direct, Observer: &told})
		c.ask(rpc("tools/call", `"name":"`+name+`","arguments":{"a":1}`))
		if len(told.called) != 1 {
			t.Fatalf("told of %v", told.called)
		}
		e := told.called[0]
		if e.Outcome != execute.NoAnswer || e.Tool.Server != test.server || e.Tool.Name != "" || e.Tool.ID != name || e.Client != "test" ||
			!strings.Contains(e.Fault, test.fault) || (len(e.Trace) == 32) != (test.server != "") || string(e.Arguments) != `{"a":1}` {
			t.Errorf("told of %+v", e)
		}
	}
}

// TestCallerIsObserved has observers learn which principal called our own tool, under which
// profile, by names and not by the hash of the token.
func TestCallerIsObserved(t *testing.T) {
	var told notebook
	one := tokens("one")
	w := serveWeb(t, newFake(tool("s", "t")), Options{Observer: &told, Profile: "work"}, HTTPOptions{Tokens: one})
	for _, path := range []string{"/mcp", "/mcp/tools/call"} {
		body := `{"name":"find_tools","arguments":{"query":"t"}}`
		if path == "/mcp" {
			body = `{"id":1,"method":"tools/call","params":` + body + `}`
		}
		if status, answer := w.text(http.MethodPost, path, body, "Authorization", "Bearer one"); status != 200 {
			t.Fatal(status, answer)
		}
	}
	w.text(http.MethodPost, "/mcp/tools/call", `{"name":"made up"}`, "Authorization", "Bearer one")
	if len(told.called) != 3 {
		t.Fatalf("told of %v", told.called)
	}
	for _, e := range told.called {
		if e.Principal != "one" || e.Profile != "work" {
			t.Errorf("%s: principal %q, profile %q", e.Tool.ID, e.Principal, e.Profile)
		}
	}
}

// A page beside MCP is there for whoever may come in.
func TestPages(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("up 1\n")) })
	h := newAlone(newFake(), Options{}).Handler(HTTPOptions{Tokens: tokens("secret"), Pages: mux})
	defer h.Close(t.Context())
	for _, tt := range []struct {
		method, path, token string
		want                int
	}{
		{"GET", "/metrics", "secret", 200}, {"GET", "/metrics", "wrong", 401}, {"GET", "/metrics", "", 401},
		{"GET", "/nothing", "secret", 404},
	} {
		r := httptest.NewRequest(tt.method, "http://127.0.0.1"+tt.path, nil)
		if tt.token != "" {
			r.Header.Set("Authorization", "Bearer "+tt.token)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		expect.Equal(t, w.Code, tt.want, "%s %s with %q", tt.method, tt.path, tt.token)
	}
}

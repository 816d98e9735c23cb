package fakeserver_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mcp-metarouter/metarouter/test/fakeserver"
	"github.com/mcp-metarouter/metarouter/test/mcptest"
)

// remote starts the fake server behind streamable HTTP.
func remote(t *testing.T, flags ...string) *mcptest.HTTPClient {
	t.Helper()
	url, _ := mcptest.Remote(t, "http", flags...)
	return mcptest.NewHTTPClient(t, url)
}

func status(err error) int {
	var s *mcptest.StatusError
	var e *mcptest.Error
	switch {
	case errors.As(err, &s):
		return s.Status
	case errors.As(err, &e):
		return e.Status
	}
	return 0
}

func TestHTTPLegacy(t *testing.T) {
	trace := filepath.Join(t.TempDir(), "trace")
	c := remote(t, "-tools", "raw,progress,grow,ask,later,hang,headers", "-trace", trace)
	if _, err := c.Call(deadline(t), "raw", nil); status(err) != http.StatusBadRequest {
		t.Errorf("without a session: %v", err)
	}
	c.OnRequest(func(string, json.RawMessage) (json.RawMessage, *mcptest.Error) { return json.RawMessage(sampled), nil })
	if _, err := c.Initialize(deadline(t)); err != nil || c.Session() == "" {
		t.Fatalf("session %q, %v", c.Session(), err)
	}
	ended, err := c.Open(deadline(t))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := c.Call(deadline(t), "raw", nil); err != nil || string(got) != fakeserver.RawResult {
		t.Errorf("raw: %s, %v", got, err)
	}
	x, err := c.Exchange(deadline(t), "tools/call", json.RawMessage(`{"name":"progress","arguments":{"n":3},"_meta":{"progressToken":"p"}}`))
	if err != nil || len(x.Before) != 3 {
		t.Errorf("progress: %+v, %v", x, err)
	}
	if got, err := c.Call(deadline(t), "ask", json.RawMessage(`{"method":"sampling/createMessage"}`)); err != nil || string(got) != textResult(sampled) {
		t.Errorf("ask: %s, %v", got, err)
	}
	c.Call(deadline(t), "later", json.RawMessage(`{"method":"sampling/createMessage"}`))
	inTrace := func(want string) {
		t.Helper()
		mcptest.WaitFor(t, want+" in the trace", func() bool {
			b, _ := os.ReadFile(trace)
			return strings.Contains(string(b), want)
		})
	}
	inTrace("later " + sampled)
	for len(c.Notifications) > 0 {
		<-c.Notifications
	}
	c.Call(deadline(t), "grow", nil)
	if n := <-c.Notifications; n.Method != "notifications/tools/list_changed" {
		t.Errorf("%s", n.Method)
	}
	c.Header.Set("X-Test", "yes")
	if got, err := c.Call(deadline(t), "headers", nil); err != nil || !strings.Contains(string(got), `X-Test: yes`) {
		t.Errorf("headers: %s, %v", got, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	hanging := make(chan error)
	go func() { _, err := c.Call(ctx, "hang", nil); hanging <- err }()
	inTrace(`"name":"hang"`)
	cancel()
	if err := <-hanging; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	inTrace("cancelled ")

	if err := c.Delete(deadline(t)); err != nil {
		t.Error(err)
	}
	<-ended
	if _, err := c.Call(deadline(t), "raw", nil); status(err) != http.StatusNotFound {
		t.Errorf("after DELETE: %v", err)
	}
}

func TestHTTPModern(t *testing.T) {
	trace := filepath.Join(t.TempDir(), "trace")
	c := remote(t, "-tools", "raw,progress,hang,grow", "-era", "modern", "-trace", trace)
	if _, err := c.Discover(deadline(t)); err != nil || c.Session() != "" {
		t.Fatalf("session %q, %v", c.Session(), err)
	}
	if got, err := c.Call(deadline(t), "raw", nil); err != nil || string(got) != `{"resultType":"complete",`+fakeserver.RawResult[1:] {
		t.Errorf("raw: %s, %v", got, err)
	}
	if tools, err := mcptest.List(deadline(t), c, "tools/list", "tools"); err != nil || len(tools) != 4 {
		t.Errorf("%s, %v", tools, err)
	}
	if _, err := c.Open(deadline(t)); status(err) != http.StatusMethodNotAllowed {
		t.Errorf("GET: %v", err)
	}
	if err := c.Delete(deadline(t)); status(err) != http.StatusMethodNotAllowed {
		t.Errorf("DELETE: %v", err)
	}
	if _, err := c.Request(deadline(t), "ping", nil); code(err) != -32601 || status(err) != http.StatusNotFound {
		t.Errorf("ping: %v", err)
	}
	body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"raw",` + modernMeta + `}}`
	for _, header := range []http.Header{
		{"Mcp-Method": {"tools/list"}, "Mcp-Name": {"raw"}},
		{"Mcp-Method": {"tools/call"}, "Mcp-Name": {"RAW"}},
		{"Mcp-Method": {"tools/call"}},
		{"Mcp-Method": {"tools/call"}, "Mcp-Name": {"raw"}, "Mcp-Protocol-Version": {"2025-11-25"}},
	} {
		resp, err := c.Do(deadline(t), http.MethodPost, header, body)
		if err != nil {
			t.Fatal(err)
		}
		b, _ := io.ReadAll(resp.Body)
		if resp.Body.Close(); resp.StatusCode != http.StatusBadRequest || !strings.Contains(string(b), "-32020") {
			t.Errorf("%v: %d %s", header, resp.StatusCode, b)
		}
	}

	listening, stop := context.WithCancel(t.Context())
	ended := make(chan *mcptest.Exchange)
	go func() {
		x, _ := c.Exchange(listening, "subscriptions/listen", json.RawMessage(`{"notifications":{"toolsListChanged":true}}`))
		ended <- x
	}()
	<-c.Notifications
	c.Call(deadline(t), "grow", nil)
	changed := <-c.Notifications
	stop()
	if x := <-ended; len(x.Before) != 2 || !strings.Contains(string(changed.Params), `subscriptionId":`+x.ID) {
		t.Errorf("%+v, %s", x, changed.Params)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() { c.Call(ctx, "hang", nil) }()
	for _, want := range []string{`"name":"hang"`, "cancelled "} { // by the end of its stream
		mcptest.WaitFor(t, want+" in the trace", func() bool {
			b, _ := os.ReadFile(trace)
			return strings.Contains(string(b), want)
		})
		cancel()
	}
}

func TestHTTPFaults(t *testing.T) {
	c := remote(t, "-bearer", "secret", "-forget-after", "4", "-json", "-tools", "progress")
	var refused *mcptest.StatusError
	if _, err := c.Initialize(deadline(t)); !errors.As(err, &refused) || refused.Status != 401 || refused.Header.Get("WWW-Authenticate") != "Bearer" {
		t.Errorf("without a token: %v", err)
	}
	c.Header.Set("Authorization", "Bearer secret")
	if _, err := c.Initialize(deadline(t)); err != nil { // requests 1 and 2
		t.Fatal(err)
	}
	for range 2 {
		x, err := c.Exchange(deadline(t), "tools/call", json.RawMessage(`{"name":"progress","arguments":{"n":3},"_meta":{"progressToken":1}}`))
		if err != nil || len(x.Before) > 0 {
			t.Errorf("%+v, %v", x, err)
		}
	}
	if _, err := c.Call(deadline(t), "progress", nil); status(err) != http.StatusNotFound {
		t.Errorf("after the server has forgotten the session: %v", err)
	}
	if _, err := c.Initialize(deadline(t)); err != nil {
		t.Errorf("another session: %v", err)
	}
	if _, err := c.Call(deadline(t), "progress", nil); err != nil {
		t.Errorf("in another session: %v", err)
	}
}

// The transport of 2024-11-05, by hand.
func TestSSE(t *testing.T) {
	url, _ := mcptest.Remote(t, "sse", "-tools", "raw")
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	events := make(chan mcptest.Event)
	done := make(chan struct{})
	go func() {
		defer close(done)
		mcptest.Events(resp.Body, func(e mcptest.Event) error { events <- e; return nil })
	}()
	endpoint := <-events
	if endpoint.Name != "endpoint" {
		t.Fatalf("%+v", endpoint)
	}
	at := strings.TrimSuffix(url, "/sse") + endpoint.Data
	for _, body := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"test","version":"1"}}}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"raw"}}`,
	} {
		posted, err := http.Post(at, "application/json", strings.NewReader(body))
		if err != nil || posted.StatusCode != http.StatusAccepted {
			t.Fatal(posted, err)
		}
		posted.Body.Close()
		if e := <-events; e.Name != "message" || !strings.HasPrefix(e.Data, `{"jsonrpc":"2.0","id":1,"result":{`) {
			t.Errorf("%+v", e)
		}
	}
	resp.Body.Close()
	<-done
	mcptest.WaitFor(t, "the session to be forgotten", func() bool {
		posted, err := http.Post(at, "application/json", strings.NewReader(`{}`))
		if err != nil {
			return false
		}
		posted.Body.Close()
		return posted.StatusCode == http.StatusNotFound
	})
}

func TestSSEClient(t *testing.T) {
	url, server := mcptest.Remote(t, "sse", "-tools", "raw,error,hang")
	c, err := mcptest.NewSSEClient(deadline(t), t, url)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Initialize(deadline(t)); err != nil {
		t.Fatal(err)
	}
	if tools, err := mcptest.List(deadline(t), c, "tools/list", "tools"); err != nil || len(tools) != 3 {
		t.Errorf("%s, %v", tools, err)
	}
	if got, err := c.Call(deadline(t), "raw", nil); err != nil || string(got) != fakeserver.RawResult {
		t.Errorf("raw: %s, %v", got, err)
	}
	if _, err := c.Call(deadline(t), "error", nil); code(err) != -31999 {
		t.Errorf("error: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := c.Call(ctx, "hang", nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("hang: %v", err)
	}
	server.Kill()
	if _, err := c.Call(deadline(t), "raw", nil); err == nil {
		t.Error("a server that is gone answered")
	}
	if _, err := mcptest.NewSSEClient(deadline(t), t, url); err == nil {
		t.Error("a stream of a server that is gone")
	}
}

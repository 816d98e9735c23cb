package server

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/exposure"
	"github.com/mcp-metarouter/metarouter/selector"
	"github.com/mcp-metarouter/metarouter/server/internal/httpd"
)

// fuzzed serves requests that need no connection.
func fuzzed(f *testing.F) *httpd.Handler {
	h := newAlone(scripted(func(context.Context, selector.Call) {}), Options{Mode: exposure.Direct}).Handler(HTTPOptions{MaxBody: 1 << 16, MaxSessions: 10})
	f.Cleanup(func() { h.Close(context.Background()) })
	return h
}

// FuzzHTTP sends arbitrary requests: each has a status that there is, and JSON
// where the answer says that it is some.
func FuzzHTTP(f *testing.F) {
	h := fuzzed(f)
	opening := httptest.NewRecorder()
	h.ServeHTTP(opening, posted(f.Context(), initializing, "text/event-stream, application/json"))
	id := opening.Header().Get(headerSession)
	for _, body := range []string{initializing, legacyCall, modernCall, `{"id":1,"method":"ping"}`, `[]`, `{"jsonrpc":"2.0","id":1,"result":{}}`, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`} {
		f.Add("POST", "/mcp", "application/json, text/event-stream", "", "", "", "", "", "localhost", body)
		f.Add("POST", "/mcp", "*/*", "", "2025-11-25", "", "", "", "localhost:1", body)
		f.Add("POST", "/mcp", "*/*", "session", "2025-11-25", "", "", "", "localhost:1", body)
		f.Add("POST", "/mcp", "*/*", "", modernVersion, "tools/call", "a__b", "", "[::1]", body)
	}
	f.Add("GET", "/mcp", "text/event-stream", "session", "", "", "", "0_0", "127.0.0.1", "")
	f.Add("DELETE", "/mcp", "", "x", "", "", "", "", "127.0.0.1", "")
	f.Add("GET", "/health", "", "", "", "", "", "", "evil.example.com", "")
	f.Fuzz(func(t *testing.T, method, path, accept, session, version, rpcMethod, name, last, host, body string) {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		r := posted(ctx, body, accept)
		r.Method, r.URL.Path, r.Host = method, path, host
		if session == "session" && method != http.MethodDelete {
			session = id
		}
		for header, value := range map[string]string{headerSession: session, headerVersion: version, headerMethod: rpcMethod, headerName: name, headerLastID: last} {
			if value != "" {
				r.Header.Set(header, value)
			}
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code < 200 || http.StatusText(w.Code) == "" {
			t.Errorf("status %d", w.Code)
		}
		if w.Header().Get("Content-Type") == "application/json" && !json.Valid(w.Body.Bytes()) {
			t.Errorf("no JSON: %q", w.Body)
		}
	})
}

// FuzzPlain sends arbitrary bodies as plain JSON-RPC: the answer is JSON-RPC, or
// there is none.
func FuzzPlain(f *testing.F) {
	h := fuzzed(f)
	for _, body := range []string{
		`{"id":1,"method":"ping"}`, `{"jsonrpc":"2.0","id":"x","method":"tools/call","params":{"name":"a__b","arguments":{"n":1}}}`,
		`{"id":1,"method":"initialize","params":{"capabilities":{"sampling":{}}}}`, modernCall, `{"method":"x"}`, `{"id":1}`, ``, `null`,
		`{"id":1,"method":"resources/read","params":{"uri":"a:b"}}`, `{"id":1,"method":"completion/complete","params":{"ref":{"type":"ref/prompt","name":"x"}}}`,
		`{"id":1,"method":"resources/subscribe","params":{"uri":"a:b"}}`, `{"id":-1.5e3,"method":"tools/list","params":{"cursor":"x"}}`,
		`[]`, `[1]`, `[{"id":1,"method":"ping"},{"method":"x"},{"id":2,"method":"tools/call","params":{"name":"a__b"}}]`,
	} {
		f.Add(body)
	}
	f.Fuzz(func(t *testing.T, body string) {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, posted(t.Context(), body, ""))
		if w.Code == http.StatusAccepted && w.Body.Len() == 0 {
			return
		}
		type response struct {
			Version string          `json:"jsonrpc"`
			ID      json.RawMessage `json:"id"`
			Result  json.RawMessage `json:"result"`
			Error   *struct {
				Code    *int    `json:"code"`
				Message *string `json:"message"`
			} `json:"error"`
		}
		var answers []response
		said := w.Body.Bytes()
		if said[0] != '[' {
			said = slices.Concat([]byte("["), said, []byte("]"))
		}
		if err := json.Unmarshal(said, &answers); err != nil || len(answers) == 0 {
			t.Fatalf("%v: %q", err, w.Body)
		}
		for _, answer := range answers {
			failed := answer.Error != nil && answer.Error.Code != nil && answer.Error.Message != nil
			if answer.Version != "2.0" || answer.ID == nil || failed == (answer.Result != nil) {
				t.Errorf("%d %s", w.Code, w.Body)
			}
		}
	})
}

func posted(ctx context.Context, body, accept string) *http.Request {
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, "http://localhost/mcp", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	if accept != "" {
		r.Header.Set("Accept", accept)
	}
	return r
}

// A bearing transport sends a token.
type bearing struct{ http.RoundTripper }

func (b bearing) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer secret")
	return b.RoundTripper.RoundTrip(r)
}

package openai

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"
)

// An endpoint is a fake that speaks the chat API over pipes, so that it works where
// time is not real. It gives its answers in turn, the last one again and again.
type endpoint struct {
	t       *testing.T
	answers []http.HandlerFunc

	mu     sync.Mutex // guards the fields below
	models []string
	asked  []asked
}

// asked is a request for an answer.
type asked struct {
	at     time.Time
	header http.Header
	body   map[string]any
}

// serve starts the endpoint, and returns options with which a Chat reaches it.
func (e *endpoint) serve() Options {
	l := &pipeListener{conns: make(chan net.Conn), closed: make(chan struct{})}
	server := &http.Server{Handler: e}
	var serving sync.WaitGroup
	serving.Go(func() { server.Serve(l) })
	e.t.Cleanup(func() {
		server.Close()
		serving.Wait()
	})
	return Options{BaseURL: "http://ai.test/v1/", Transport: &http.Transport{DialContext: l.dial}}
}

func (e *endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e.mu.Lock()
	if r.URL.Path == "/v1/models" {
		defer e.mu.Unlock()
		if e.models == nil {
			http.Error(w, "gone fishing", http.StatusBadGateway)
			return
		}
		list := []map[string]string{}
		for _, id := range e.models {
			list = append(list, map[string]string{"id": id, "object": "model"})
		}
		json.NewEncoder(w).Encode(map[string]any{"object": "list", "data": list})
		return
	}
	request := asked{at: time.Now(), header: r.Header}
	if r.Method != http.MethodPost || r.URL.Path != "/v1/chat/completions" || json.NewDecoder(r.Body).Decode(&request.body) != nil {
		e.t.Errorf("unexpected %s %s", r.Method, r.URL.Path)
	}
	answer := e.answers[min(len(e.asked), len(e.answers)-1)]
	e.asked = append(e.asked, request)
	e.mu.Unlock()
	answer(w, r)
}

func (e *endpoint) requests() []asked {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]asked(nil), e.asked...)
}

func (e *endpoint) lists(models ...string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.models = models
}

// refuse answers with a status, an error object and headers "Name: value".
func refuse(status int, kind, message string, header ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i+1 < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(status)
		json.NewEncoder(w).Encode(map[string]any{"error": map[string]any{"message": message, "type": kind}})
	}
}

// stream answers with these lines of an event stream.
func stream(lines ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
		for _, line := range lines {
			fmt.Fprintf(w, "%s\n\n", line)
			w.(http.Flusher).Flush()
		}
	}
}

// delta is an event with a part of an answer.
func delta(text string) string {
	b, _ := json.Marshal(text)
	return fmt.Sprintf(`data: {"id":"x","object":"chat.completion.chunk","model":"gpt-x-2026","choices":[{"index":0,"delta":{"content":%s},"finish_reason":null}]}`, b)
}

const (
	finished = `data: {"model":"gpt-x-2026","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`
	used     = `data: {"model":"gpt-x-2026","choices":[],"usage":{"prompt_tokens":9,"completion_tokens":2,"total_tokens":11}}`
	done     = "data: [DONE]"
)

// says answers with a text, in a stream of a part a word.
func says(words ...string) http.HandlerFunc {
	lines := []string{": keep alive", `data: {"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}`}
	for _, w := range words {
		lines = append(lines, delta(w))
	}
	return stream(append(lines, finished, used, done)...)
}

// cut ends the connection in the middle of the answer.
func cut(first http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		first(w, r)
		panic(http.ErrAbortHandler)
	}
}

// A pipeListener accepts connections that are made with its dial.
type pipeListener struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (l *pipeListener) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	near, far := net.Pipe()
	select {
	case l.conns <- far:
		return near, nil
	case <-l.closed:
		return nil, fmt.Errorf("connection refused")
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error   { l.once.Do(func() { close(l.closed) }); return nil }
func (l *pipeListener) Addr() net.Addr { return &net.UnixAddr{Name: "pipe"} }

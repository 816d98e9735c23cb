package server

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/clientauth"
	"github.com/mcp-metarouter/metarouter/server/internal/httpd"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

// Pipes are a network in memory, so that time can be faked.
type pipes struct {
	conns chan net.Conn
	once  sync.Once
	done  chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}
func (p *pipes) Close() error   { p.once.Do(func() { close(p.done) }); return nil }
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 8787} }

func (p *pipes) dial(context.Context, string, string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case p.conns <- theirs:
		return ours, nil
	case <-p.done:
		return nil, errors.New("the server is closed")
	}
}

// A web is a handler that is served, and a client of it.
type web struct {
	t       *testing.T
	server  *alone
	handler *httpd.Handler
	client  *http.Client
	base    string // of URLs
	dial    func(context.Context, string, string) (net.Conn, error)
}

func serveWeb(t *testing.T, r Router, o Options, h HTTPOptions) *web {
	s := newAlone(r, o)
	w := serveHandler(t, s.Handler(h), s.Run)
	w.server = s
	return w
}

// serveHandler serves a handler while run runs, until the test ends.
func serveHandler(t *testing.T, h *httpd.Handler, run func(context.Context) error) *web {
	p := &pipes{conns: make(chan net.Conn), done: make(chan struct{})}
	transport := &http.Transport{DialContext: p.dial, MaxIdleConnsPerHost: 100}
	w := &web{t: t, handler: h, client: &http.Client{Transport: transport}, base: "http://localhost", dial: p.dial}
	ctx, end := context.WithCancel(context.WithoutCancel(t.Context()))
	var running sync.WaitGroup
	running.Go(func() { run(ctx) })
	server := &http.Server{Handler: w.handler, ErrorLog: log.New(io.Discard, "", 0)}
	running.Go(func() { server.Serve(p) })
	t.Cleanup(func() {
		at, cancel := context.WithCancel(ctx)
		cancel()
		w.handler.Close(at)
		end()
		server.Close()
		transport.CloseIdleConnections()
		running.Wait()
	})
	return w
}

// header is what requests bear, as pairs.
func (w *web) do(method, path, body string, header ...string) *http.Response {
	w.t.Helper()
	r, err := http.NewRequestWithContext(w.t.Context(), method, w.base+path, strings.NewReader(body))
	expect.OK(w.t, err)
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
		if header[i] == "Host" {
			r.Host = header[i+1]
		}
	}
	response, err := w.client.Do(r)
	expect.OK(w.t, err)
	return response
}

// text is what a request is answered with: of a stream, which a slow answer begins, the messages, a line each.
func (w *web) text(method, path, body string, header ...string) (status int, answer string) {
	w.t.Helper()
	response := w.do(method, path, body, header...)
	defer response.Body.Close()
	defer bounded(response.Body)()
	all, err := io.ReadAll(response.Body)
	expect.OK(w.t, err)
	if answer = string(all); response.Header.Get("Content-Type") == "application/json" && !json.Valid(all) {
		w.t.Errorf("no JSON: %s", answer)
	}
	if response.Header.Get("Content-Type") == "text/event-stream" {
		events := &events{w.t, response.Body, bufio.NewReader(strings.NewReader(answer))}
		answer = ""
		for s, ok := events.next(); ok; s, ok = events.next() {
			if s.data != "" {
				answer += s.data + "\n"
			}
		}
	}
	return response.StatusCode, strings.TrimSuffix(answer, "\n")
}

var both = []string{"Accept", "application/json, text/event-stream"}

// tokens returns the principals that have the tokens, all of them admins.
func tokens(texts ...string) []clientauth.Principal {
	var all []clientauth.Principal
	for _, text := range texts {
		all = append(all, clientauth.Principal{Hash: fmt.Sprintf("%x", sha256.Sum256([]byte(text))), Name: text, Admin: true})
	}
	return all
}

// session opens one, and returns the headers of its requests.
func (w *web) session(header ...string) []string {
	w.t.Helper()
	return w.sessionAt("/mcp", header...)
}

// sessionAt is session at another path.
func (w *web) sessionAt(path string, header ...string) []string {
	w.t.Helper()
	response := w.do(http.MethodPost, path, initializing, append(both, header...)...)
	defer response.Body.Close()
	io.Copy(io.Discard, response.Body)
	id := response.Header.Get("Mcp-Session-Id")
	if response.StatusCode != http.StatusOK || id == "" {
		w.t.Fatalf("initialize: %d, session %q", response.StatusCode, id)
	}
	header = slices.Concat(both, header, []string{"Mcp-Session-Id", id, "Mcp-Protocol-Version", "2025-11-25"})
	w.text(http.MethodPost, path, `{"jsonrpc":"2.0","method":"notifications/initialized"}`, header...)
	return header
}

// A sent is a server-sent event.
type sent struct{ id, data string }

// An events reads server-sent events.
type events struct {
	t    *testing.T
	body io.ReadCloser
	in   *bufio.Reader
}

func reading(t *testing.T, response *http.Response) *events {
	t.Helper()
	if kind := response.Header.Get("Content-Type"); response.StatusCode != http.StatusOK || kind != "text/event-stream" {
		t.Fatalf("%d %s, not a stream", response.StatusCode, kind)
	}
	return &events{t, response.Body, bufio.NewReader(response.Body)}
}

// bounded closes what is read when it has not ended for a day: a stream is kept
// alive, so that time that is faked would go on for ever.
func bounded(body io.Closer) (stop func() bool) {
	return time.AfterFunc(24*time.Hour, func() { body.Close() }).Stop
}

// next returns the next event, or reports false at the end.
func (e *events) next() (s sent, ok bool) {
	e.t.Helper()
	defer bounded(e.body)()
	for {
		line, err := e.in.ReadString('\n')
		if err != nil {
			return s, false
		}
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ":")
		switch value = strings.TrimPrefix(value, " "); name {
		case "id":
			s.id, ok = value, true
		case "data":
			s.data, ok = value, true
		case "":
			if ok {
				return s, true
			}
		}
	}
}

func (e *events) want(id, data string) {
	e.t.Helper()
	if got, ok := e.next(); !ok || got.id != id || !strings.HasPrefix(got.data, data) {
		e.t.Fatalf("event %+v, %v; want %q %s…", got, ok, id, data)
	}
}

func (e *events) end() {
	e.t.Helper()
	if got, ok := e.next(); ok {
		e.t.Errorf("event %+v behind the end", got)
	}
	e.body.Close()
}

const modernVersion = "2026-07-28"

func modernHeaders(method, name string) []string {
	header := append(both, "Mcp-Protocol-Version", modernVersion, "Mcp-Method", method)
	if name != "" {
		header = append(header, "Mcp-Name", name)
	}
	return header
}

func rpc(method, params string) string {
	return `{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":{` + params + `}}`
}

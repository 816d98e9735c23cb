package fakeserver

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync"

	"github.com/mcp-metarouter/metarouter/test/internal/protocol"
)

// runHTTP serves streamable HTTP, HTTP with SSE, or both until the end of stdin.
func (s *server) runHTTP() {
	w := &web{server: s, sessions: map[string]*session{}}
	if s.httpFile != "" {
		s.listenAt(s.httpFile, "/mcp", http.HandlerFunc(w.streamable))
	}
	if s.sseFile != "" {
		s.listenAt(s.sseFile, "/sse", http.HandlerFunc(w.withSSE))
	}
	io.Copy(io.Discard, s.stdin)
}

// listenAt serves on a free port and writes the URL to the file.
func (p *process) listenAt(file, path string, h http.Handler) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		p.fail(1, "%v", err)
	}
	site := &http.Server{Handler: h}
	p.atExit(func() { site.Close() })
	go site.Serve(l)
	// Rename, so that no reader sees half of the URL.
	err = os.WriteFile(file+".new", []byte("http://"+l.Addr().String()+path), 0o600)
	if err == nil {
		err = os.Rename(file+".new", file)
	}
	if err != nil {
		p.fail(1, "%v", err)
	}
}

// web is the fake server over HTTP.
type web struct {
	*server

	mu       sync.Mutex // guards the fields below
	sessions map[string]*session
	made     int
	requests int
}

// A session is a client of the legacy era.
type session struct {
	*peer
	id    string
	box   chan string     // messages for the GET stream
	ctx   context.Context // done when the session has ended
	close context.CancelFunc
}

func (w *web) newSession() *session {
	// If no stream is open and the box is full, messages are lost.
	s := &session{box: make(chan string, 4096)}
	s.ctx, s.close = context.WithCancel(context.Background())
	s.peer = w.newPeer(func(line string) {
		select {
		case s.box <- line:
		default:
		}
	})
	w.mu.Lock()
	defer w.mu.Unlock()
	w.made++
	s.id = fmt.Sprintf("fake-session-%d-%d", w.pid, w.made)
	w.sessions[s.id] = s
	return s
}

func (w *web) session(id string) (*session, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s, ok := w.sessions[id]
	return s, ok
}

// forget ends a session.
func (w *web) forget(s *session) {
	w.mu.Lock()
	delete(w.sessions, s.id)
	w.mu.Unlock()
	s.close()
	s.leave()
}

// admit reports whether the request is allowed; otherwise it has answered it.
func (w *web) admit(rw http.ResponseWriter, r *http.Request) bool {
	if w.bearer != "" && r.Header.Get("Authorization") != "Bearer "+w.bearer {
		rw.Header().Set("WWW-Authenticate", "Bearer")
		http.Error(rw, "unauthorized", http.StatusUnauthorized)
		return false
	}
	w.mu.Lock()
	w.requests++
	var forgotten []*session
	if w.requests == w.forgetAfter+1 && w.forgetAfter > 0 {
		for _, s := range w.sessions {
			forgotten = append(forgotten, s)
		}
	}
	w.mu.Unlock()
	for _, s := range forgotten {
		w.forget(s)
	}
	return true
}

func (w *web) streamable(rw http.ResponseWriter, r *http.Request) {
	if !w.admit(rw, r) {
		return
	}
	if r.Method == http.MethodPost {
		w.post(rw, r)
		return
	}
	s, ok := w.session(r.Header.Get("Mcp-Session-Id"))
	switch {
	case w.era == "modern" || r.Method != http.MethodGet && r.Method != http.MethodDelete:
		http.Error(rw, "method not allowed", http.StatusMethodNotAllowed)
	case !ok:
		http.Error(rw, "no such session", http.StatusNotFound)
	case r.Method == http.MethodGet:
		s.stream(rw, r, "")
	default:
		w.forget(s)
	}
}

// stream writes first and then the messages that belong to no request.
func (s *session) stream(rw http.ResponseWriter, r *http.Request, first string) {
	rw.Header().Set("Content-Type", "text/event-stream")
	io.WriteString(rw, first)
	flush(rw)
	for {
		select {
		case line := <-s.box:
			writeEvent(rw, line)
		case <-s.ctx.Done():
			return
		case <-r.Context().Done():
			return
		}
	}
}

func writeEvent(rw http.ResponseWriter, line string) {
	fmt.Fprintf(rw, "event: message\ndata: %s\n\n", line)
	flush(rw)
}

func flush(rw http.ResponseWriter) { http.NewResponseController(rw).Flush() }

func (w *web) post(rw http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client has disconnected
	}
	var m protocol.Message
	if err := json.Unmarshal(body, &m); err != nil {
		refuse(rw, http.StatusBadRequest, nil, newError(-32700, "Parse error"))
		return
	}
	w.traceLine(string(body))
	if w.mute {
		<-r.Context().Done()
		return
	}
	if w.isModern(r, m) {
		w.postModern(rw, r, m)
		return
	}
	w.postLegacy(rw, r, m)
}

func (w *web) isModern(r *http.Request, m protocol.Message) bool {
	return w.era == "modern" ||
		w.era == "both" && (r.Header.Get("MCP-Protocol-Version") >= protocol.Modern || metaOf(m)[protocol.KeyVersion] != nil)
}

func (w *web) postLegacy(rw http.ResponseWriter, r *http.Request, m protocol.Message) {
	id := r.Header.Get("Mcp-Session-Id")
	s, ok := w.session(id)
	switch {
	case m.Method == "initialize":
		s = w.newSession()
		rw.Header().Set("Mcp-Session-Id", s.id)
	case id == "":
		refuse(rw, http.StatusBadRequest, m.ID, newError(-32000, "Bad Request: Mcp-Session-Id header is required"))
		return
	case !ok:
		refuse(rw, http.StatusNotFound, m.ID, newError(-32001, "Session not found"))
		return
	}
	if m.Method == "" || m.ID == nil {
		s.receive(m)
		rw.WriteHeader(http.StatusAccepted)
		return
	}
	// In this era a dropped connection cancels nothing.
	ctx, end := s.begin(s.ctx, m.ID)
	defer end()
	a := &reply{rw: rw, asJSON: w.asJSON || !s.isSlow(m.Method), push: s.push}
	s.serve(&call{peer: s.peer, ctx: ctx, message: m, send: a.send, header: r.Header})
}

func (w *web) postModern(rw http.ResponseWriter, r *http.Request, m protocol.Message) {
	if m.Method == "" || m.ID == nil {
		rw.WriteHeader(http.StatusAccepted)
		return
	}
	if e := mismatch(r, m); e != nil {
		refuse(rw, http.StatusBadRequest, m.ID, e)
		return
	}
	p := w.newPeer(func(string) {})
	defer p.leave()
	a := &reply{rw: rw, asJSON: w.asJSON || !p.isSlow(m.Method), modern: true, push: p.push}
	p.serve(&call{peer: p, ctx: r.Context(), message: m, send: a.send, header: r.Header})
}

// withSSE serves the transport of 2024-11-05: a GET stream whose first event has the URL to POST to.
func (w *web) withSSE(rw http.ResponseWriter, r *http.Request) {
	if !w.admit(rw, r) {
		return
	}
	if r.Method == http.MethodGet && r.URL.Path == "/sse" {
		s := w.newSession()
		defer w.forget(s)
		s.stream(rw, r, "event: endpoint\ndata: /message?session="+s.id+"\n\n")
		return
	}
	s, ok := w.session(r.URL.Query().Get("session"))
	if r.Method != http.MethodPost || !ok {
		http.Error(rw, "not found", http.StatusNotFound)
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client has disconnected
	}
	rw.WriteHeader(http.StatusAccepted)
	s.read(body, r.Header)
}

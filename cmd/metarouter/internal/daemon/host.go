package daemon

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

const (
	// firstClient is how long a host waits for its first client.
	firstClient = 20 * time.Second

	// joinTime is how long a client may take from its first request to its second one.
	joinTime = 15 * time.Second

	// reloading is how long a client that has another configuration waits for the
	// host to have it too, as after an edit of the file.
	reloading = 5 * time.Second

	// clientHeader is the header with the client's id.
	clientHeader = "Metarouter-Client"
)

// Terms are hashes of everything that decides which servers are started and how.
type Terms struct {
	Process string // of the constants of a process: program, user, folder, flags, files
	Text    string // of the configuration's text
	Servers string // of the servers that the configuration yields, and of their environment
}

// A Host is the process that serves the clients of several others.
type Host struct {
	// Terms returns the terms that a client must have in common with the host. It is
	// called at any time.
	Terms func() Terms

	// Serve serves a client that has chosen a profile, "" for no profile, until the client leaves
	// or ctx ends.
	Serve func(ctx context.Context, profile string, in io.Reader, out io.Writer) error

	// HasProfile reports whether a client may choose the profile.
	HasProfile func(profile string) bool

	// Reload has the configuration read again.
	Reload func()

	// Abandoned is called if the last client's process does not wait until the host has ended.
	Abandoned func()

	// Log writes the lines of the log to all clients.
	Log *Log

	mu      sync.Mutex // guards the fields below
	clients map[string]chan net.Conn
	closed  bool
	served  sync.WaitGroup
	empty   chan struct{} // closed when the last client has left
}

// Run serves the clients that come to a socket which it makes, and the other requests that mux
// serves, until the last client has left, no client came, or ctx ends.
func (h *Host) Run(ctx context.Context, socket string, mux *http.ServeMux) error {
	l, err := listenAt(socket)
	if err != nil {
		return err
	}
	defer socketsAt(socket).tidy()
	h.clients, h.empty = make(map[string]chan net.Conn), make(chan struct{})
	mux.HandleFunc("GET /log", func(w http.ResponseWriter, q *http.Request) { h.attend(ctx, w, q) })
	mux.HandleFunc("POST /join", h.join)
	mux.HandleFunc("POST /reload", func(http.ResponseWriter, *http.Request) { h.Reload() })
	first := time.AfterFunc(firstClient, func() { h.remove("") })
	defer first.Stop()
	serving, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- serve(serving, l, mux) }()
	select {
	case <-h.empty:
	case <-ctx.Done():
	case err = <-ended:
		ended <- nil
	}
	h.close()
	stop()
	h.served.Wait()
	return errors.Join(err, <-ended)
}

// admit admits a client. It returns the client's id, and the channel by which its connection
// comes; "" if the host is about to end.
func (h *Host) admit() (id string, joined <-chan net.Conn) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return "", nil
	}
	id = rand.Text()
	c := make(chan net.Conn, 1)
	h.clients[id] = c
	h.served.Add(1)
	return id, c
}

// remove removes a client, if it was one, and ends the host if there is no other. It
// reports whether that is so.
func (h *Host) remove(id string) (last bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.clients, id)
	if len(h.clients) > 0 || h.closed {
		return len(h.clients) == 0
	}
	h.closed = true
	close(h.empty)
	return true
}

func (h *Host) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
}

// agrees reports whether the client's terms are the host's: now, or in a moment if
// the text of the configuration was edited.
func (h *Host) agrees(ctx context.Context, want Terms) bool {
	timeout := time.After(reloading)
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	for {
		have := h.Terms()
		if have == want {
			return true
		}
		if have.Process != want.Process || have.Text == want.Text {
			return false
		}
		select {
		case <-again.C:
		case <-timeout:
			return false
		case <-ctx.Done():
			return false
		}
	}
}

// attend answers the first request of a client's process: with lines of the log, until the process may
// end. The client is served meanwhile, once its second request has come.
func (h *Host) attend(ctx context.Context, w http.ResponseWriter, q *http.Request) {
	profile := q.FormValue("profile")
	switch want := (Terms{q.FormValue("process"), q.FormValue("text"), q.FormValue("servers")}); {
	case !h.agrees(q.Context(), want):
		http.Error(w, "the running router has another configuration, folder or environment than this client", http.StatusConflict)
		return
	case profile != "" && !h.HasProfile(profile):
		http.Error(w, fmt.Sprintf("there is no profile %q any more; 'metarouter check' lists what is wrong", profile), http.StatusNotFound)
		return
	}
	id, joined := h.admit()
	if ctx.Err() != nil || id == "" {
		http.Error(w, "the router is about to end", http.StatusServiceUnavailable)
		return
	}
	defer h.served.Done()
	log, err := hijack(w, "HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n"+clientHeader+": "+id+"\r\n\r\n")
	if err != nil {
		h.remove(id)
		return
	}
	there, gone := context.WithCancel(context.WithoutCancel(ctx))
	go func() { // ends with the connection
		defer gone()
		io.Copy(io.Discard, log)
	}()
	serving, cancel := context.WithCancel(ctx)
	defer cancel()
	context.AfterFunc(there, cancel)
	h.serve(serving, profile, joined, log)
	if last := h.remove(id); last && ctx.Err() == nil { // the last client's process waits until this one has ended
		context.AfterFunc(there, h.Abandoned) // the log's connection ends with this process
		return
	}
	log.Close()
}

func (h *Host) serve(ctx context.Context, profile string, joined <-chan net.Conn, log io.Writer) {
	defer h.Log.To(log)()
	select {
	case c := <-joined:
		defer c.Close()
		_ = h.Serve(ctx, profile, input{c}, c) // if it fails, the client has gone
	case <-time.After(joinTime):
	case <-ctx.Done():
	}
}

// join answers the second request of a client's process, and serves MCP on its connection from then on.
func (h *Host) join(w http.ResponseWriter, q *http.Request) {
	id := q.FormValue("client")
	h.mu.Lock()
	joined := h.clients[id]
	h.clients[id] = nil
	if joined == nil {
		delete(h.clients, id)
	}
	h.mu.Unlock()
	if joined == nil {
		http.Error(w, "there is no such client", http.StatusNotFound)
		return
	}
	if c, err := hijack(w, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: mcp\r\n\r\n"); err == nil {
		joined <- c
	}
}

// An input is a connection to be read. Close ends a Read, and leaves the connection open.
type input struct{ net.Conn }

func (i input) Close() error { return i.SetReadDeadline(time.Unix(1, 0)) }

// hijack takes a request's connection over, and answers the request with the head.
func hijack(w http.ResponseWriter, head string) (net.Conn, error) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return nil, err
	}
	conn.SetWriteDeadline(time.Now().Add(joinTime))
	if _, err = io.WriteString(conn, head); err != nil {
		conn.Close()
		return nil, err
	}
	conn.SetDeadline(time.Time{})
	return conn, nil
}

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

	"github.com/mcp-metarouter/metarouter/internal/signal"
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

// A Host is the process that serves the clients of several others.
type Host struct {
	Program string // see [Program]
	Terms   Terms  // which a client must have in common with the host

	// Text returns the digest of the text of the configuration in use.
	Text func() string

	// Stays says that the host serves others too: it does not end with its last client, and takes over from a host that
	// runs, but no newer build takes over from it.
	Stays bool

	// Listening is called once clients find a host that stays.
	Listening func()

	// Serve serves a client until the client leaves or ctx ends.
	Serve func(ctx context.Context, c Client, in io.Reader, out io.Writer) error

	// HasProfile reports whether a client may choose the profile.
	HasProfile func(profile string) bool

	// Reload has the configuration read again.
	Reload func()

	// Abandoned is called if the last client's process does not wait until the host has ended.
	Abandoned func()

	// Log writes the lines of the log to all clients.
	Log *Log

	socket  string
	life    *signal.Life // while it lasts, clients are admitted; they are its work
	mu      sync.Mutex   // guards clients, and is held while the life ends
	clients map[string]chan net.Conn
}

// errHandedOver ends the life of a host with clients that are to go to another one.
var errHandedOver = errors.New("another host takes over")

// Run serves the clients that come to a socket which it makes, and the other requests that mux
// serves, until the last client has left, no client came, or ctx ends.
func (h *Host) Run(ctx context.Context, socket string, mux *http.ServeMux) error {
	l, err := socketsAt(socket).listenAt(socket)
	if err != nil {
		return err
	}
	return h.serveAt(ctx, l, mux)
}

// TakeOver is Run for a host that stays: clients of a host with the same terms come to it. It calls other with the reason
// if another one stays too.
func (h *Host) TakeOver(ctx context.Context, s Sockets, mux *http.ServeMux, other func(why string)) error {
	unlock, err := s.lock(ctx)
	if err != nil {
		return err
	}
	for _, running := range s.running(shared) {
		bounded, cancel := context.WithTimeout(ctx, joinWait)
		conn, _, err := exchange(bounded, running, "PUT", "/handover", &greeting{Client: Client{Program: h.Program}, Terms: h.Terms})
		if cancel(); err != nil {
			other(err.Error())
			continue
		}
		conn.Close()
	}
	l, err := s.listen(shared)
	if unlock(); err != nil {
		return err
	}
	h.Listening()
	return h.serveAt(ctx, l, mux)
}

func (h *Host) serveAt(ctx context.Context, l net.Listener, mux *http.ServeMux) (err error) {
	h.socket, h.life, h.clients = l.Addr().String(), signal.NewLife(), make(map[string]chan net.Conn)
	defer socketsAt(h.socket).running("") // which removes the sockets of dead routers
	mux.HandleFunc("PUT /log", func(w http.ResponseWriter, q *http.Request) { h.attend(ctx, w, q) })
	mux.HandleFunc("PUT /handover", h.answerHandOver)
	mux.HandleFunc("POST /join", h.join)
	mux.HandleFunc("POST /reload", func(http.ResponseWriter, *http.Request) { h.Reload() })
	if !h.Stays {
		first := time.AfterFunc(firstClient, func() { h.remove("") })
		defer first.Stop()
	}
	serving, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- serve(serving, l, mux) }()
	select {
	case <-h.life.Done():
		h.life.Wait() // commands find the router until its clients have gone to another one
	case <-ctx.Done():
	case err = <-ended:
		ended <- nil
	}
	h.life.Close(nil)
	stop()
	h.life.Wait()
	return errors.Join(err, <-ended)
}

// admit admits a client. It returns the client's id, and the channel by which its connection
// comes; "" if the host is about to end.
func (h *Host) admit(ctx context.Context) (id string, joined <-chan net.Conn) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if ctx.Err() != nil || !h.life.Begin() {
		return "", nil
	}
	id = rand.Text()
	c := make(chan net.Conn, 1)
	h.clients[id] = c
	return id, c
}

// remove removes a client, if it was one, and ends the host if there is no other, unless the host stays. It
// reports whether the process of the client is to wait for that end.
func (h *Host) remove(id string) (last bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.clients, id)
	if len(h.clients) > 0 || h.Stays {
		return false
	}
	h.life.Close(nil)
	return h.life.Cause() != errHandedOver
}

// handOver has the clients go to another host, each once it awaits no answer: their processes see the end of the log, and
// leave. The host ends with the last one.
func (h *Host) handOver() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.life.Cause() == nil {
		socketsAt(h.socket).setAside(h.socket, "leaving-")
		h.life.Close(errHandedOver)
	}
}

// answerHandOver answers a host that takes over.
func (h *Host) answerHandOver(w http.ResponseWriter, q *http.Request) {
	from, err := readGreeting(w, q)
	switch name := h.Terms.differ(from.Terms); {
	case err != nil:
		http.Error(w, err.Error(), http.StatusBadRequest)
	case h.Stays:
		http.Error(w, "another router serves over HTTP with this configuration, and has its own servers", http.StatusConflict)
	case name != "":
		http.Error(w, otherTerms(name), http.StatusConflict)
	default:
		h.handOver()
	}
}

func otherTerms(name string) string { return "the running router has another " + name }

// awaitText waits until the host uses the client's text of the configuration, if that can be read.
func (h *Host) awaitText(ctx context.Context, text string) {
	if h.Text() == text {
		return
	}
	h.Reload() // also a host that does not watch its files
	ctx, cancel := context.WithTimeout(ctx, reloading)
	defer cancel()
	signal.Poll(ctx, 50*time.Millisecond, func() bool { return h.Text() == text })
}

// attend answers the first request of a client's process: with lines of the log, until the process may
// end. The client is served meanwhile, once its second request has come.
func (h *Host) attend(ctx context.Context, w http.ResponseWriter, q *http.Request) {
	c, err := readGreeting(w, q)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if name := h.Terms.differ(c.Terms); name != "" {
		http.Error(w, otherTerms(name), http.StatusConflict)
		return
	}
	if !h.Stays && isNewer(c.Program, h.Program) {
		h.handOver()
		http.Error(w, "this program is newer than the running router's, and takes over", http.StatusConflict)
		return
	}
	if h.awaitText(q.Context(), c.Text); c.Profile != "" && !h.HasProfile(c.Profile) {
		http.Error(w, fmt.Sprintf("there is no profile %q any more; 'metarouter check' lists what is wrong", c.Profile), http.StatusNotFound)
		return
	}
	id, joined := h.admit(ctx)
	if id == "" {
		http.Error(w, "the router is about to end", http.StatusServiceUnavailable)
		return
	}
	defer h.life.Work.Done()
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
	stop := context.AfterFunc(h.life.Context(), func() {
		if half, ok := log.(interface{ CloseWrite() error }); ok && h.life.Cause() == errHandedOver {
			half.CloseWrite()
		}
	})
	h.serve(serving, c.Client, joined, log)
	stop()
	if last := h.remove(id); last && ctx.Err() == nil { // the last client's process waits until this one has ended
		context.AfterFunc(there, h.Abandoned) // the log's connection ends with this process
		return
	}
	log.Close()
}

func (h *Host) serve(ctx context.Context, client Client, joined <-chan net.Conn, log io.Writer) {
	defer h.Log.To(log, client.Level())()
	select {
	case c := <-joined:
		defer c.Close()
		_ = h.Serve(ctx, client, input{c}, c) // if it fails, the client has gone
	case <-time.After(joinTime):
	case <-ctx.Done():
	}
}

// join answers the second request of a client's process, and serves MCP on its connection from then on.
func (h *Host) join(w http.ResponseWriter, q *http.Request) {
	id := q.FormValue("client")
	h.mu.Lock()
	joined := h.clients[id]
	if joined != nil {
		h.clients[id] = nil
	}
	h.mu.Unlock()
	if joined == nil {
		http.Error(w, "there is no such client: the router is about to end", http.StatusServiceUnavailable)
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

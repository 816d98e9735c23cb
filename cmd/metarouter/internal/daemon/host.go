package daemon

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/pipe"
)

const (
	// firstClient is how long a host waits for its first client.
	firstClient = 20 * time.Second

	// handover is how long a client may take to hand over its streams.
	handover = 5 * time.Second

	// reloading is how long a client that has another configuration waits for the
	// host to have it too, as after an edit of the file.
	reloading = time.Second

	upgrade = "metarouter"
)

// Terms are hashes of everything that decides which servers are started and how.
type Terms struct {
	Place   string // of what does not change while a process runs: program, user, folder, flags, files
	Text    string // of the configuration's text
	Servers string // of the servers that the configuration yields, and of their environment
}

// Streams are what a client of the router is served on.
type Streams struct {
	In, Out, Err *os.File
	Memory       []byte      // the client's, which outlives the host; see [NewMemory]
	Stage        *pipe.Stage // the client's too, for what is written to Out
	Profile      string      // that the client has chosen; "" if it chose none
}

// A Host is the process that serves the clients of several others.
type Host struct {
	// Terms returns the terms that a client must have in common with the host. It is
	// called at any time.
	Terms func() Terms

	// Serve serves a client until it leaves or ctx ends. The host closes the streams
	// afterwards. done says that the client's memory is no longer used.
	Serve func(ctx context.Context, s Streams) (done bool, err error)

	// Reload has the configuration read again.
	Reload func()

	// Size is that of the clients' memory.
	Size int

	mu      sync.Mutex // guards what follows
	clients int
	closed  bool
	served  sync.WaitGroup
	empty   chan struct{} // closed when the last client has left
	killed  bool
	last    net.Conn // of the last client, kept so that it ends with the process
}

// Run serves the clients that come to the socket that this process was started with,
// and the other requests that mux serves, until the last client has left, no client
// came, or ctx ends. Killed says that the last client's process was killed, so that
// no process waits for an orderly end.
func (h *Host) Run(ctx context.Context, socket *os.File, mux *http.ServeMux) (killed bool, err error) {
	l, err := net.FileListener(socket)
	if err != nil {
		return false, fmt.Errorf("take over the socket: %w", err)
	}
	socket.Close()
	defer placeOfSocket(l.Addr().String()).tidy()
	if u, ok := l.(*net.UnixListener); ok {
		u.SetUnlinkOnClose(true)
	}
	h.empty = make(chan struct{})
	mux.HandleFunc("POST /join", func(w http.ResponseWriter, q *http.Request) { h.join(ctx, w, q) })
	first := time.AfterFunc(firstClient, func() { h.leave(false, false) })
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
	return h.killed, errors.Join(err, <-ended)
}

// enter counts a client in; false if the host is about to end.
func (h *Host) enter() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return false
	}
	h.clients++
	h.served.Add(1)
	return true
}

// leave counts a client out, if it was one, and ends the host if none is left. It
// reports whether that is so.
func (h *Host) leave(client, killed bool) (last bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if client {
		h.clients--
	}
	if h.clients > 0 || h.closed {
		return h.clients == 0
	}
	h.closed, h.killed = true, killed
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
	again := time.NewTicker(reloading / 20)
	defer again.Stop()
	for {
		have := h.Terms()
		if have == want {
			return true
		}
		if have.Place != want.Place || have.Text == want.Text {
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

// join takes over the streams of a client and serves it.
func (h *Host) join(ctx context.Context, w http.ResponseWriter, q *http.Request) {
	want := Terms{q.FormValue("place"), q.FormValue("text"), q.FormValue("servers")}
	if !h.agrees(q.Context(), want) {
		http.Error(w, "the running router has another configuration, folder or environment than this client", http.StatusConflict)
		return
	}
	if ctx.Err() != nil || !h.enter() {
		http.Error(w, "the router is about to end", http.StatusServiceUnavailable)
		return
	}
	defer h.served.Done()
	profile := q.FormValue("profile")
	c, streams, err := h.accept(w)
	streams.Profile = profile
	if err != nil {
		h.leave(true, true)
		return
	}
	// The last client waits until the connection ends with the process, when nothing
	// is left of the servers.
	if last := h.host(ctx, c, streams); !last {
		c.Close()
	}
}

// accept makes the request's connection one for a client, and takes its streams.
func (h *Host) accept(w http.ResponseWriter) (c *net.UnixConn, s Streams, err error) {
	conn, _, err := http.NewResponseController(w).Hijack() // first, since net/http reads in the background until then
	if err != nil {
		return nil, s, err
	}
	c, ok := conn.(*net.UnixConn)
	if !ok {
		conn.Close()
		return nil, s, errors.New("no local socket")
	}
	c.SetDeadline(time.Now().Add(handover))
	var files []*os.File
	if _, err = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: "+upgrade+"\r\n\r\n"); err == nil {
		files, err = receiveFiles(c, 6)
	}
	if err == nil {
		s = Streams{In: files[0], Out: files[1], Err: files[2]}
		s.Memory, err = mapped(files[3], h.Size)
		if err == nil {
			s.Stage, err = pipe.StageOf(files[4], files[5])
		}
		if err != nil {
			closeAll(files)
		}
		files[3].Close()
	}
	if err != nil {
		c.Close()
		return nil, s, err
	}
	c.SetDeadline(time.Time{})
	return c, s, nil
}

// Words that go over the connection of a client. The client's process sends leave, so
// that the client need not end its input, and reload. The host sends bye, with the
// error if there was one.
const (
	wordLeave  = "leave\n"
	wordReload = "reload\n"
	wordBye    = "bye "
)

// host serves a client, and reports whether it was the last one.
func (h *Host) host(ctx context.Context, c *net.UnixConn, s Streams) (last bool) {
	serving, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer cancel()
		lines := bufio.NewReaderSize(c, 64)
		for {
			switch word, err := lines.ReadString('\n'); {
			case err != nil:
				return
			case word == wordReload:
				h.Reload()
			case word == wordLeave:
				cancel()
			}
		}
	}()
	unused, err := h.Serve(serving, s)
	closeAll([]*os.File{s.In, s.Out, s.Err})
	s.Stage.Close()
	if unused {
		unmap(s.Memory)
	}
	if ctx.Err() != nil { // the host must end: the client goes on with another router
		h.leave(true, false)
		return false
	}
	text := "\n"
	if err != nil {
		text = err.Error() + "\n"
	}
	c.SetWriteDeadline(time.Now().Add(time.Second))
	_, gone := io.WriteString(c, wordBye+text)
	if last = h.leave(true, gone != nil); last {
		h.last = c
		return true
	}
	c.SetReadDeadline(time.Unix(1, 0))
	<-done
	return false
}

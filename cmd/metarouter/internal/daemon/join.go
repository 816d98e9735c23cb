package daemon

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/pipe"
	"github.com/mcp-metarouter/metarouter/internal/safefile"
	"github.com/mcp-metarouter/metarouter/internal/secret"
	"github.com/mcp-metarouter/metarouter/internal/signal"
)

const (
	// joinWait is how long a router that runs may take to let a client in, and startWait one that was just
	// started. On a busy machine either takes seconds, and a second router would start all servers again.
	joinWait  = 10 * time.Second
	startWait = 15 * time.Second

	// startPoll is how often a router that was just started is asked.
	startPoll = 2 * time.Millisecond
)

var (
	// ErrLost says that a shared router has ended.
	ErrLost = errors.New("the shared router has ended")

	// ErrRefused wraps the reason why no router will serve the client.
	ErrRefused = errors.New("the shared router refuses the client")
)

// A Joiner is a process that has a shared router serve its client.
type Joiner struct {
	Sockets Sockets
	Terms   Terms
	Text    func() string // the digest of the configuration's text, which may be edited while the client is there
	Client  Client
	Host    []string         // the command line of a host, without the path of its socket at the end
	Log     string           // the file for the output of a host that crashes
	Err     io.Writer        // gets the lines of the router's log
	Other   func(why string) // called with the reason why a router that runs is not shared
}

// A Client is what the process of a client says of the client.
type Client struct {
	Program string   // see [Program]
	Profile string   // its choice; "" without one
	Only    []string // the servers that it sees; all if it is empty
	View    struct { // how it sees the router, as package server has it
		Mode, Names string
		FindTools   bool
	}
	LogLevel string   // the least severe lines of the log that it wants
	Folder   string   // in which it was started
	Environ  []string // its variables, as of [os.Environ]
}

// maxJoin bounds the request of a client's process, in bytes. Systems bound the variables of a process to less.
const maxJoin = 8 << 20

// A greeting is the form of the first request of a client's process. Programs of other versions read it.
type greeting struct {
	Client
	Terms Terms
	Text  string // the digest of the text of its configuration
}

func (g *greeting) values() url.Values {
	v := url.Values{
		"text": {g.Text}, "program": {g.Program}, "profile": {g.Profile}, "only": g.Only, "mode": {g.View.Mode}, "names": {g.View.Names},
		"find": {strconv.FormatBool(g.View.FindTools)}, "level": {g.LogLevel}, "folder": {g.Folder}, "variable": g.Environ,
	}
	for name, value := range g.Terms {
		v.Set("term "+name, value)
	}
	return v
}

// readGreeting reads a greeting.
func readGreeting(w http.ResponseWriter, q *http.Request) (g greeting, err error) {
	q.Body = http.MaxBytesReader(w, q.Body, maxJoin)
	if err := q.ParseForm(); err != nil {
		return g, err
	}
	v := q.PostForm
	g.Client = Client{Program: v.Get("program"), Profile: v.Get("profile"), Only: v["only"], LogLevel: v.Get("level"), Folder: v.Get("folder"), Environ: v["variable"]}
	g.View.Mode, g.View.Names, g.View.FindTools = v.Get("mode"), v.Get("names"), v.Get("find") == "true"
	g.Terms, g.Text = make(Terms), v.Get("text")
	for key := range v {
		if name, ok := strings.CutPrefix(key, "term "); ok {
			g.Terms[name] = v.Get(key)
		}
	}
	return g, nil
}

// An otherError says why a router that runs does not serve a client.
type otherError struct{ why string }

func (e *otherError) Error() string { return e.why }

// A Session is the connection of a client's process with a host. It carries MCP.
type Session struct {
	Conn
	socket   string
	log      net.Conn
	released chan struct{} // closed when the host needs the process no more
}

// Released is closed when the router needs the process no more: it has ended, if this was its last client, or hands its clients
// over to a newer one.
func (s *Session) Released() <-chan struct{} { return s.released }

// Leave ends the session with a router that has no request of the client.
func (s *Session) Leave() {
	s.Close()
	s.log.Close()
}

// Reload has the host read the configuration again.
func (s *Session) Reload(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, joinWait)
	defer cancel()
	if conn, _, err := exchange(ctx, s.socket, "POST", "/reload", nil); err == nil {
		conn.Close()
	}
}

// Join finds a router with the same terms, or starts one.
func (j *Joiner) Join(ctx context.Context) (*Session, error) {
	unlock, err := j.Sockets.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	from := greeting{j.Client, j.Terms, j.Text()}
	for _, socket := range j.Sockets.running(shared) {
		s, err := j.attach(ctx, socket, from, joinWait)
		if err == nil || errors.Is(err, ErrRefused) {
			return s, err
		}
		if errors.Is(err, os.ErrDeadlineExceeded) && ctx.Err() == nil {
			j.Sockets.setAside(socket, "frozen-")
		}
		if other, ok := errors.AsType[*otherError](err); ok {
			j.Other(other.why)
		}
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	socket := j.Sockets.newSocket(shared)
	host, ended, err := j.start(socket)
	if err != nil {
		return nil, err
	}
	s, err := j.attachNew(context.WithoutCancel(ctx), socket, from, ended) // a host that serves the client can be told to end, and waited for
	if err != nil {
		host.Signal(syscall.SIGTERM) // else it would wait for others
		return nil, fmt.Errorf("%w before it let the client in: %w", ErrLost, err)
	}
	return s, nil
}

// attachNew is attach for a router that was just started, which may not listen yet.
func (j *Joiner) attachNew(ctx context.Context, socket string, from greeting, ended <-chan struct{}) (*Session, error) {
	for began := time.Now(); ; {
		s, err := j.attach(ctx, socket, from, startWait)
		if e, ok := errors.AsType[*net.OpError](err); !ok || e.Op != "dial" || time.Since(began) > startWait {
			return s, err // else no process listens yet
		}
		if signal.Within(ended, startPoll) {
			return nil, err
		}
	}
}

// maxLog is the size above which the file for crashes is emptied.
const maxLog = 1 << 20

// start starts a host. ended is closed when its process has ended.
func (j *Joiner) start(socket string) (host *os.Process, ended <-chan struct{}, err error) {
	flags := 0
	if info, err := os.Lstat(j.Log); err == nil && info.Size() > maxLog {
		flags = os.O_TRUNC
	}
	if err := os.MkdirAll(filepath.Dir(j.Log), 0o700); err != nil {
		return nil, nil, err
	}
	crashes, err := safefile.Append(j.Log, flags)
	if err != nil {
		return nil, nil, err
	}
	defer crashes.Close()
	cmd := exec.Command(j.Host[0], append(j.Host[1:len(j.Host):len(j.Host)], socket)...)
	cmd.Stderr = crashes
	if token := secret.Token(); token != "" { // the configuration may name it
		cmd.Env = append(os.Environ(), secret.TokenVariable+"="+token)
	}
	detach(cmd)
	if err := cmd.Start(); err != nil {
		return nil, nil, fmt.Errorf("start a shared router: %w", err)
	}
	over := make(chan struct{})
	go func() { // so that it leaves no zombie if it ends first
		defer close(over)
		cmd.Wait()
	}()
	return cmd.Process, over, nil
}

func (j *Joiner) attach(ctx context.Context, socket string, from greeting, wait time.Duration) (*Session, error) {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	log, answer, err := exchange(ctx, socket, "PUT", "/log", &from)
	if err != nil {
		return nil, err
	}
	conn, _, err := exchange(ctx, socket, "POST", "/join?client="+answer.Header.Get(clientHeader), nil)
	if err != nil {
		log.Close()
		return nil, err
	}
	s := &Session{Conn: conn.(Conn), socket: socket, log: log, released: make(chan struct{})}
	go func() { // ends with the connection, which the router ends
		defer close(s.released)
		io.Copy(j.Err, answer.Body)
		io.Copy(io.Discard, answer.Body) // lines that the client does not read
	}()
	return s, nil
}

// exchange sends a request, with a greeting unless that is nil, to the router at a socket, before the deadline of ctx. After an answer of success, the
// connection is as long as the body, or of another protocol.
func exchange(ctx context.Context, socket, method, path string, from *greeting) (net.Conn, *http.Response, error) {
	conn, err := dial(ctx, socket)
	if err != nil {
		return nil, nil, err
	}
	until, _ := ctx.Deadline()
	conn.SetDeadline(until)
	answer, err := sendRequest(conn, method, path, from)
	if err != nil {
		conn.Close()
		return nil, nil, err
	}
	conn.SetDeadline(time.Time{})
	return pipe.Conn(conn), answer, nil
}

func sendRequest(conn net.Conn, method, path string, from *greeting) (*http.Response, error) {
	var form url.Values
	if from != nil {
		form = from.values()
	}
	q, err := http.NewRequest(method, "http://router"+path, strings.NewReader(form.Encode()))
	if err != nil {
		return nil, err
	}
	q.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if method == "POST" {
		q.Header.Set("Connection", "Upgrade")
		q.Header.Set("Upgrade", "mcp")
	}
	if err := q.Write(conn); err != nil {
		return nil, err
	}
	answer, err := http.ReadResponse(bufio.NewReader(conn), q)
	if err != nil {
		return nil, err
	}
	if answer.StatusCode > 299 {
		text, _ := io.ReadAll(io.LimitReader(answer.Body, 1000))
		why := errors.New(strings.TrimSpace(string(text)))
		if answer.StatusCode == http.StatusNotFound {
			return nil, fmt.Errorf("%w: %w", ErrRefused, why)
		}
		return nil, &otherError{why.Error()}
	}
	return answer, nil
}

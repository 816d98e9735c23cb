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
	"strings"
	"syscall"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/pipe"
	"github.com/mcp-metarouter/metarouter/internal/safefile"
	"github.com/mcp-metarouter/metarouter/internal/secret"
)

const (
	// joinWait is how long a router that runs may take to take a client over, and
	// startWait one that was just started.
	joinWait  = 3 * time.Second
	startWait = 15 * time.Second
)

// ErrCannotShare says that no other process can serve the client.
var ErrCannotShare = errors.New("can't share a router")

// errLost says that the host ended without a bye.
var errLost = errors.New("the shared router has ended")

// A Client is a process that has another one serve its streams.
type Client struct {
	Place  Place
	Terms  func() Terms // asked for at each join: the configuration may be edited while the client is there
	Host   []string     // the command line of a host, which is given the socket as its file 3
	Log    string       // the file that gets what a host prints when it crashes
	Reload <-chan os.Signal

	// Profile is what limits what the client sees, "" if it chose none.
	Profile string

	// Lost is called when a host has ended while it served the client.
	Lost func(error)

	In, Out, Err, Memory *os.File
	Stage                *pipe.Stage

	// Wait, if it is not nil, is called once a router has served the client for settled. It
	// may replace this process by one that waits until the router has ended. It returns if
	// that fails, or if stay returns true.
	Wait func(w Waiting, stay func() bool)

	// Resumed is what such a process has left; nil for a new client.
	Resumed *Resumed

	host   int // process id of the router that this process has started; 0 if it has started none
	socket string
}

// settled is how long a client keeps its process before Wait: a client that leaves soon
// shall not pay for it.
const settled = time.Second

// A Waiting is a client that waits.
type Waiting struct {
	Conn         *net.UnixConn // to the router
	Lock, Socket string        // files of the place, which the last process removes
	State        ClientState
}

// A ClientState is what a client knows of its routers.
type ClientState struct {
	Lost  int       // how many have ended, one after the other
	Began time.Time // when the last one was joined
	Host  int       // its process id if it is a child of this process, else 0
}

// A Resumed is a client that has waited.
type Resumed struct {
	State ClientState
	Lost  bool  // the router has ended, and the client is still there
	Err   error // else what the router said at its end
}

// maxLost bounds how many hosts may end, one after the other, while each serves
// the client for less than aWhile.
const (
	maxLost = 3
	aWhile  = time.Minute
)

// Run has the streams served by a router that runs with the same terms, or by one
// that it starts, until the client leaves or ctx ends, and then until the router
// has ended, if that was its last client. If the router ends before, another one
// goes on. An error that wraps [ErrCannotShare] says that the streams are to be
// served by this process; what else is wrong is the host's own error.
func (c *Client) Run(ctx context.Context) error {
	defer c.Place.tidy()
	lost, began := 0, time.Now()
	var err error
	if r := c.Resumed; r != nil {
		if r.State.Host != 0 {
			go reap(r.State.Host)
		}
		if !r.Lost || ctx.Err() != nil {
			return r.Err
		}
		lost, began, err = r.State.Lost, r.State.Began, errLost
	}
	for ; ; began, err = time.Now(), nil {
		var conn *net.UnixConn
		if err == nil {
			conn, err = c.join(ctx)
		}
		switch {
		case err == nil:
			err = c.follow(ctx, conn, ClientState{lost, began, c.host})
		case ctx.Err() != nil: // the client need not be served any more
			return nil
		case !errors.Is(err, errLost):
			return fmt.Errorf("%w: %w", ErrCannotShare, err)
		}
		switch {
		case !errors.Is(err, errLost):
			return err
		case ctx.Err() != nil: // the client need not be served any more
			return nil
		}
		c.Lost(err)
		if lost++; time.Since(began) > aWhile {
			lost = 0
		}
		if lost == maxLost {
			return fmt.Errorf("%w: %d have ended, the last of them: %w", ErrCannotShare, lost, err)
		}
	}
}

// join finds a router or starts one, and hands over the streams.
func (c *Client) join(ctx context.Context) (*net.UnixConn, error) {
	unlock, err := c.Place.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	terms := c.Terms()
	for _, socket := range c.Place.sockets(shared) {
		if conn, err := c.handOver(ctx, socket, terms, joinWait); err == nil {
			c.socket, c.host = socket, 0
			return conn, nil
		}
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	socket, host, err := c.start()
	if err != nil {
		return nil, err
	}
	c.socket, c.host = socket, host.Pid
	conn, err := c.handOver(context.WithoutCancel(ctx), socket, terms, startWait) // a host that serves the client can be told to leave, and waited for
	if err != nil {
		host.Signal(syscall.SIGTERM) // else it would wait for others
		return nil, fmt.Errorf("%w before it took the client over: %w", errLost, err)
	}
	return conn, nil
}

// maxLog is the size above which the file for crashes is emptied.
const maxLog = 1 << 20

// start starts a host.
func (c *Client) start() (socket string, process *os.Process, err error) {
	l, err := c.Place.listen(shared)
	if err != nil {
		return "", nil, err
	}
	defer l.Close()
	l.SetUnlinkOnClose(false)
	f, err := l.File()
	if err != nil {
		return "", nil, err
	}
	defer f.Close()
	flags := 0
	if info, err := os.Lstat(c.Log); err == nil && info.Size() > maxLog {
		flags = os.O_TRUNC
	}
	if err := os.MkdirAll(filepath.Dir(c.Log), 0o700); err != nil {
		return "", nil, err
	}
	crashes, err := safefile.Append(c.Log, flags)
	if err != nil {
		return "", nil, err
	}
	defer crashes.Close()
	host := exec.Command(c.Host[0], c.Host[1:]...)
	host.ExtraFiles = []*os.File{f}
	host.Stderr = crashes
	if token := secret.Token(); token != "" { // the configuration may name it
		host.Env = append(os.Environ(), secret.TokenVariable+"="+token)
	}
	detach(host)
	if err := host.Start(); err != nil {
		return "", nil, fmt.Errorf("start a shared router: %w", err)
	}
	go host.Wait() // so that it leaves no zombie if it ends first
	return l.Addr().String(), host.Process, nil
}

// handOver hands the streams to the router at the socket. It fails only if the
// router has not got them.
func (c *Client) handOver(ctx context.Context, socket string, terms Terms, wait time.Duration) (*net.UnixConn, error) {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	conn, err := dial(ctx, socket)
	if err != nil {
		return nil, err
	}
	late := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(late)
		conn.SetDeadline(time.Unix(1, 0))
	})
	local := conn.(*net.UnixConn)
	err = c.ask(local, terms)
	if !stop() {
		<-late
	}
	if err != nil {
		local.Close()
		return nil, err
	}
	local.SetDeadline(time.Time{})
	return local, nil
}

func (c *Client) ask(conn *net.UnixConn, terms Terms) error {
	values := url.Values{"place": {terms.Place}, "text": {terms.Text}, "servers": {terms.Servers}, "profile": {c.Profile}}
	q, err := http.NewRequest(http.MethodPost, "http://router/join?"+values.Encode(), nil)
	if err != nil {
		return err
	}
	q.Header.Set("Connection", "Upgrade")
	q.Header.Set("Upgrade", upgrade)
	if err := q.Write(conn); err != nil {
		return err
	}
	answer, err := http.ReadResponse(bufio.NewReader(conn), q)
	if err != nil {
		return err
	}
	if answer.StatusCode != http.StatusSwitchingProtocols {
		text, _ := io.ReadAll(io.LimitReader(answer.Body, 1000))
		return fmt.Errorf("join a router: %s", strings.TrimSpace(string(text)))
	}
	return sendFiles(conn, append([]*os.File{c.In, c.Out, c.Err, c.Memory}, c.Stage.Files()...))
}

// follow waits until the client has left, and the host has ended if it must.
func (c *Client) follow(ctx context.Context, conn *net.UnixConn, state ClientState) error {
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { io.WriteString(conn, WordLeave) })()
	done := make(chan struct{})
	defer close(done)
	go func() {
		for {
			select {
			case <-c.Reload:
				io.WriteString(conn, WordReload)
			case <-done:
				return
			}
		}
	}()
	lines := bufio.NewReader(conn)
	c.wait(ctx, Waiting{conn, c.Place.lockFile(), c.socket, state}, lines)
	line, err := lines.ReadString('\n')
	text, bye := strings.CutPrefix(line, WordBye)
	if err != nil || !bye {
		return errLost
	}
	lines.ReadByte() // until the host closes the connection, or ends
	if text = strings.TrimSpace(text); text != "" {
		return errors.New(text)
	}
	return nil
}

// wait calls Wait after a moment in which the router has said nothing.
func (c *Client) wait(ctx context.Context, w Waiting, lines *bufio.Reader) {
	if c.Wait == nil {
		return
	}
	w.Conn.SetReadDeadline(time.Now().Add(settled))
	_, err := lines.Peek(1)
	w.Conn.SetReadDeadline(time.Time{})
	if errors.Is(err, os.ErrDeadlineExceeded) {
		c.Wait(w, func() bool { return ctx.Err() != nil || len(c.Reload) > 0 })
	}
}

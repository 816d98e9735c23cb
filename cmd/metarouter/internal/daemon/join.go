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
	for lost, began := 0, time.Now(); ; began = time.Now() {
		conn, err := c.join(ctx)
		joined := err == nil
		if joined {
			err = c.follow(ctx, conn)
		}
		switch {
		case ctx.Err() != nil && (!joined || errors.Is(err, errLost)): // the client need not be served any more
			return nil
		case joined && !errors.Is(err, errLost):
			return err
		case !errors.Is(err, errLost):
			return fmt.Errorf("%w: %w", ErrCannotShare, err)
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
func (c *Client) follow(ctx context.Context, conn *net.UnixConn) error {
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { io.WriteString(conn, wordLeave) })()
	done := make(chan struct{})
	defer close(done)
	go func() {
		for {
			select {
			case <-c.Reload:
				io.WriteString(conn, wordReload)
			case <-done:
				return
			}
		}
	}()
	lines := bufio.NewReader(conn)
	line, err := lines.ReadString('\n')
	text, bye := strings.CutPrefix(line, wordBye)
	if err != nil || !bye {
		return errLost
	}
	lines.ReadByte() // until the host closes the connection, or ends
	if text = strings.TrimSpace(text); text != "" {
		return errors.New(text)
	}
	return nil
}

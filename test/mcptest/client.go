package mcptest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Client is a plain MCP client of one server over stdio. It may be used by several
// goroutines at once.
type Client struct {
	// Cmd is the running server, the leader of its own process group.
	Cmd *exec.Cmd
	// Notifications has the server's notifications in wire order. A notification is lost
	// if 65,536 are unread.
	Notifications <-chan Notification
	// Done is closed when the server has ended and was waited for.
	Done <-chan struct{}

	stderr string // path of a file
	in     *os.File
	inbox  *inbox

	mu       sync.Mutex // guards the fields below
	next     int
	isModern bool
	declared json.RawMessage // the client's capabilities

	write sync.Mutex // serializes lines to in
}

// Start starts a server in dir with exactly the environment env, or with the environment of
// the test if env is nil. The server is killed at the end of the test if it still runs.
func Start(t testing.TB, command string, args []string, dir string, env []string) *Client {
	t.Helper()
	cmd := exec.Command(command, args...)
	cmd.Dir, cmd.Env, cmd.SysProcAttr = dir, env, ownGroup()

	stderr, err := os.Create(filepath.Join(t.TempDir(), "stderr"))
	if err != nil {
		t.Fatal(err)
	}
	defer stderr.Close()
	stdin, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	out, stdout, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer stdout.Close()
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, stdout, stderr
	if err := cmd.Start(); err != nil {
		t.Fatalf("start %s: %v", command, err)
	}

	notifications, done := make(chan Notification, 1<<16), make(chan struct{})
	c := &Client{Cmd: cmd, Notifications: notifications, Done: done, stderr: stderr.Name(), in: in}
	c.inbox = &inbox{
		notifications: notifications,
		reply:         func(line string) { c.SendLine(line) },
		waiting:       map[string]waiting{},
	}
	read := make(chan struct{})
	go func() {
		defer close(read)
		c.inbox.read(out)
	}()
	go func() {
		defer close(done)
		cmd.Wait()
		// Read what the server wrote before it ended. A process that it left behind may
		// hold the pipe open, hence the deadline.
		out.SetReadDeadline(time.Now().Add(10 * time.Second))
		<-read
		out.Close()
		in.Close()
	}()
	t.Cleanup(c.Kill)
	return c
}

// Initialize does the legacy handshake and returns the result of initialize.
func (c *Client) Initialize(ctx context.Context) (json.RawMessage, error) {
	c.mu.Lock()
	declared := c.declared
	c.mu.Unlock()
	result, err := c.Request(ctx, "initialize", initializeParams(declared))
	if err != nil {
		return nil, err
	}
	return result, c.Notify("notifications/initialized", nil)
}

// Discover makes this a modern client: it asks server/discover. Every later request has the
// modern era's _meta, and its parameters lose the order of their keys.
func (c *Client) Discover(ctx context.Context) (json.RawMessage, error) {
	c.mu.Lock()
	c.isModern = true
	c.mu.Unlock()
	return c.Request(ctx, "server/discover", nil)
}

// Declare sets the capabilities of the client, which are {} by default. Call it before
// Initialize; in the modern era it applies to each later request.
func (c *Client) Declare(capabilities string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.declared = json.RawMessage(capabilities)
}

// OnRequest sets the function that answers the server's requests. Without one the client
// answers ping, and any other request as an unknown method.
func (c *Client) OnRequest(f OnRequest) {
	c.inbox.mu.Lock()
	defer c.inbox.mu.Unlock()
	c.inbox.onRequest = f
}

// Request sends a request and waits for its result. Parameters that are a json.RawMessage
// are sent unchanged. The error is an [*Error] if the server answers with one, [ErrEnded] if
// the server ends first, and the context's error if the context ends first; then the request
// is cancelled.
func (c *Client) Request(ctx context.Context, method string, params any) (json.RawMessage, error) {
	x, err := c.Exchange(ctx, method, params)
	return x.Result, err
}

// Exchange does the same as Request and returns the notifications before the answer too.
// Notifications has them as well.
func (c *Client) Exchange(ctx context.Context, method string, params any) (*Exchange, error) {
	raw := marshal(params)
	c.mu.Lock()
	c.next++
	x := &Exchange{ID: strconv.Itoa(c.next)}
	if c.isModern {
		raw = withModernMeta(raw, c.declared)
	}
	c.mu.Unlock()
	answer, err := c.inbox.expect(x)
	if err != nil {
		return x, err
	}
	c.SendLine(message(x.ID, method, raw)) // if this fails, the server ends and answer is closed
	select {
	case m, ok := <-answer:
		switch {
		case !ok:
			return x, ErrEnded
		case m.Error != nil:
			return x, newError(m.Error, 0)
		}
		x.Result = m.Result
		return x, nil
	case <-ctx.Done():
		c.inbox.forget(x)
		c.Notify("notifications/cancelled", json.RawMessage(`{"requestId":`+x.ID+`}`))
		return x, ctx.Err()
	}
}

// Call requests tools/call.
func (c *Client) Call(ctx context.Context, tool string, arguments any) (json.RawMessage, error) {
	return c.Request(ctx, "tools/call", callParams(tool, arguments))
}

// Notify sends a notification.
func (c *Client) Notify(method string, params any) error {
	return c.SendLine(message("", method, marshal(params)))
}

// SendLine sends any line.
func (c *Client) SendLine(line string) error { return c.SendRaw(line + "\n") }

// SendRaw sends any bytes.
func (c *Client) SendRaw(text string) error {
	c.write.Lock()
	defer c.write.Unlock()
	_, err := c.in.WriteString(text)
	return err
}

// Stderr returns the text that the server has written to stderr so far.
func (c *Client) Stderr() string {
	b, err := os.ReadFile(c.stderr)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// Stray returns the number of non-empty lines that were no message for this client.
func (c *Client) Stray() int {
	c.inbox.mu.Lock()
	defer c.inbox.mu.Unlock()
	return c.inbox.stray
}

// CloseInput closes the server's stdin.
func (c *Client) CloseInput() {
	c.in.Close() // without the lock, which a writer may hold until the server reads
}

// Close closes the server's stdin and waits for the server to end. It is an error if the
// server ends with another status than 0, or runs a minute later: then it is killed.
func (c *Client) Close() error {
	c.CloseInput()
	select {
	case <-c.Done:
	case <-time.After(time.Minute):
		c.Kill()
		return errors.New("the server was still running a minute after the end of its stdin")
	}
	if !c.Cmd.ProcessState.Success() {
		return fmt.Errorf("the server ended: %v", c.Cmd.ProcessState)
	}
	return nil
}

// Kill kills the server, but not its children, and waits for it.
func (c *Client) Kill() {
	c.Cmd.Process.Kill()
	<-c.Done
}

// SignalGroup sends a signal to the server's process group. On Windows it kills the server.
func (c *Client) SignalGroup(sig syscall.Signal) error { return signalGroup(c.Cmd.Process, sig) }

package mcptest

import (
	"bufio"
	"bytes"
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

// Client is a plain MCP client of one server over stdio: what it hands out are
// the server's bytes, so that a call through a router can be compared with a
// direct one. It may be used from several goroutines.
type Client struct {
	// Cmd is the running server, leader of a process group of its own.
	Cmd *exec.Cmd
	// Notifications has the server's notifications in wire order. Those that find
	// it full (65,536 unread) are lost.
	Notifications <-chan Notification
	// Done is closed once the server has ended and been waited for.
	Done <-chan struct{}

	stderr string // file
	in     *os.File

	mu        sync.Mutex // guards what follows
	next      int
	pending   map[string]chan message // by id
	ended     bool                    // nothing more comes from the server
	isModern  bool
	onRequest func(method string, params json.RawMessage) (json.RawMessage, *Error)
	stray     int

	write sync.Mutex // guards in, line by line
}

// Notification is a notification as it came.
type Notification struct {
	Method string
	Params json.RawMessage
}

// Error is a JSON-RPC error. Object has the server's bytes of all of it.
type Error struct {
	Code    int
	Message string
	Data    json.RawMessage
	Object  json.RawMessage `json:"-"`
}

func (e *Error) Error() string { return fmt.Sprintf("JSON-RPC error %d: %s", e.Code, e.Message) }

// ErrEnded is the error of a request that the server ended without answering.
var ErrEnded = errors.New("the server has ended")

// Start starts a server in dir with exactly the environment env, or with that of
// the test if env is nil. It is killed at the end of the test if it still runs.
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
	c := &Client{
		Cmd: cmd, Notifications: notifications, Done: done,
		stderr: stderr.Name(), in: in,
		pending: map[string]chan message{},
	}
	read := make(chan struct{})
	go func() {
		defer close(read)
		c.read(out, notifications)
	}()
	go func() {
		defer close(done)
		cmd.Wait()
		// What the server wrote is read to its end, but a process that it left
		// behind may hold the pipe for good.
		out.SetReadDeadline(time.Now().Add(time.Second))
		<-read
		out.Close()
		c.closeInput()
	}()
	t.Cleanup(c.Kill)
	return c
}

// Initialize does the legacy handshake and returns the result of initialize.
func (c *Client) Initialize(ctx context.Context) (json.RawMessage, error) {
	result, err := c.Request(ctx, "initialize", json.RawMessage(
		`{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"mcptest","version":"1"}}`))
	if err != nil {
		return nil, err
	}
	return result, c.Notify("notifications/initialized", nil)
}

// Discover makes this a modern client: it asks server/discover, and from then on
// every request bears the modern era's _meta, which costs its parameters the
// order of their keys.
func (c *Client) Discover(ctx context.Context) (json.RawMessage, error) {
	c.mu.Lock()
	c.isModern = true
	c.mu.Unlock()
	return c.Request(ctx, "server/discover", nil)
}

// OnRequest answers the server's requests. Without it, ping is answered, and
// everything else is an unknown method.
func (c *Client) OnRequest(f func(method string, params json.RawMessage) (result json.RawMessage, _ *Error)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.onRequest = f
}

// Request sends a request and waits for its result: a *Error if the server says
// so, ErrEnded if it ends first, the context's error if that ends first, in which
// case the server is told. Parameters that are a json.RawMessage go as they are.
func (c *Client) Request(ctx context.Context, method string, params any) (json.RawMessage, error) {
	c.mu.Lock()
	if c.ended {
		c.mu.Unlock()
		return nil, ErrEnded
	}
	c.next++
	id := strconv.Itoa(c.next)
	answer := make(chan message, 1)
	c.pending[id] = answer
	isModern := c.isModern
	c.mu.Unlock()

	raw := marshal(params)
	if isModern {
		raw = withModernMeta(raw)
	}
	c.send(`{"jsonrpc":"2.0","id":`+id+`,"method":`+string(encode(method)), raw) // if it fails, the server ends
	select {
	case m, ok := <-answer:
		switch {
		case !ok:
			return nil, ErrEnded
		case m.Error != nil:
			e := &Error{Object: m.Error}
			json.Unmarshal(m.Error, e)
			return nil, e
		}
		return m.Result, nil
	case <-ctx.Done():
		c.mu.Lock()
		delete(c.pending, id)
		c.mu.Unlock()
		c.Notify("notifications/cancelled", json.RawMessage(`{"requestId":`+id+`}`))
		return nil, ctx.Err()
	}
}

// Call asks for tools/call.
func (c *Client) Call(ctx context.Context, tool string, arguments any) (json.RawMessage, error) {
	if arguments == nil {
		arguments = json.RawMessage(`{}`)
	}
	return c.Request(ctx, "tools/call", json.RawMessage(
		`{"name":`+string(encode(tool))+`,"arguments":`+string(marshal(arguments))+`}`))
}

// ListTools asks for every page of tools/list and returns the definitions.
func (c *Client) ListTools(ctx context.Context) ([]json.RawMessage, error) {
	var tools []json.RawMessage
	for params := json.RawMessage(`{}`); ; {
		result, err := c.Request(ctx, "tools/list", params)
		if err != nil {
			return nil, err
		}
		var page struct {
			Tools      []json.RawMessage
			NextCursor *string
		}
		if err := json.Unmarshal(result, &page); err != nil {
			return nil, fmt.Errorf("decode tools/list: %w", err)
		}
		tools = append(tools, page.Tools...)
		if page.NextCursor == nil {
			return tools, nil
		}
		params = encode(map[string]string{"cursor": *page.NextCursor})
	}
}

// ToolNames is ListTools, but only the names, "" for a tool without one.
func (c *Client) ToolNames(ctx context.Context) ([]string, error) {
	tools, err := c.ListTools(ctx)
	if err != nil {
		return nil, err
	}
	names := make([]string, len(tools))
	for i, definition := range tools {
		names[i] = nameOf(string(definition))
	}
	return names, nil
}

// Notify sends a notification.
func (c *Client) Notify(method string, params any) error {
	return c.send(`{"jsonrpc":"2.0","method":`+string(encode(method)), marshal(params))
}

// SendLine sends any line.
func (c *Client) SendLine(line string) error {
	c.write.Lock()
	defer c.write.Unlock()
	_, err := c.in.WriteString(line + "\n")
	return err
}

// Stderr is what the server has written to stderr so far.
func (c *Client) Stderr() string {
	b, err := os.ReadFile(c.stderr)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// Stray counts the lines, but for empty ones, that were no message for this client.
func (c *Client) Stray() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stray
}

// Close closes the server's stdin and waits for it to end. If that takes over
// ten seconds it is killed, and that is an error, as is a status other than 0.
func (c *Client) Close() error {
	c.closeInput()
	select {
	case <-c.Done:
	case <-time.After(10 * time.Second):
		c.Kill()
		return errors.New("the server was still running ten seconds after the end of its stdin")
	}
	if !c.Cmd.ProcessState.Success() {
		return fmt.Errorf("the server ended: %v", c.Cmd.ProcessState)
	}
	return nil
}

// Kill kills the server, not its children, and waits for it.
func (c *Client) Kill() {
	c.Cmd.Process.Kill()
	<-c.Done
}

// SignalGroup sends a signal to the server's whole process group. On Windows it
// kills the server.
func (c *Client) SignalGroup(sig syscall.Signal) error { return signalGroup(c.Cmd.Process, sig) }

func (c *Client) closeInput() {
	// Without the lock, since a writer may hold it until the server reads on.
	c.in.Close()
}

func (c *Client) read(out *os.File, notifications chan<- Notification) {
	r := bufio.NewReader(out)
	for {
		line, err := r.ReadBytes('\n')
		if line = bytes.TrimSpace(line); len(line) > 0 && !c.receive(line, notifications) {
			c.mu.Lock()
			c.stray++
			c.mu.Unlock()
		}
		if err != nil {
			break
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
	for _, answer := range c.pending {
		close(answer)
	}
}

// receive reports whether the line was a message for us.
func (c *Client) receive(line []byte, notifications chan<- Notification) bool {
	var m message
	if line[0] != '{' || json.Unmarshal(line, &m) != nil {
		return false
	}
	switch {
	case m.Method != "" && m.ID == nil:
		select {
		case notifications <- Notification{m.Method, m.Params}:
		default:
		}
		return true
	case m.Method != "":
		go c.reply(m)
		return true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	answer, ok := c.pending[string(m.ID)]
	if ok {
		delete(c.pending, string(m.ID))
		answer <- m
	}
	return ok
}

// reply answers a request of the server's.
func (c *Client) reply(m message) {
	c.mu.Lock()
	f := c.onRequest
	c.mu.Unlock()
	var result json.RawMessage
	e := &Error{Code: -32601, Message: "Method not found"}
	switch {
	case f != nil:
		result, e = f(m.Method, m.Params)
	case m.Method == "ping":
		result, e = json.RawMessage(`{}`), nil
	}
	if e != nil {
		c.SendLine(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":%s}}`, m.ID, e.Code, encode(e.Message)))
		return
	}
	c.SendLine(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result))
}

// send finishes an open message with its parameters and sends it.
func (c *Client) send(open string, params json.RawMessage) error {
	if params != nil {
		open += `,"params":` + string(params)
	}
	return c.SendLine(open + "}")
}

// marshal leaves raw JSON as it is.
func marshal(v any) json.RawMessage {
	switch v := v.(type) {
	case nil:
		return nil
	case json.RawMessage:
		return v
	}
	return encode(v)
}

// withModernMeta adds what every modern request says of its client.
func withModernMeta(params json.RawMessage) json.RawMessage {
	members := map[string]json.RawMessage{}
	json.Unmarshal(params, &members)
	meta := map[string]json.RawMessage{
		"io.modelcontextprotocol/clientCapabilities": json.RawMessage(`{}`),
		"io.modelcontextprotocol/clientInfo":         json.RawMessage(`{"name":"mcptest","version":"1"}`),
		keyVersion:                                   encode(modern),
	}
	json.Unmarshal(members["_meta"], &meta)
	members["_meta"] = encode(meta)
	return encode(members)
}

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
	declared  json.RawMessage // the client's capabilities
	onRequest func(method string, params json.RawMessage) (json.RawMessage, *Error)
	stray     int
	exchanges map[*Exchange]bool // under way

	write sync.Mutex // guards in, line by line
}

// Notification is a notification as it came.
type Notification struct {
	Method string
	Params json.RawMessage
}

// Error is a JSON-RPC error. Object has the server's bytes of all of it, Status
// the HTTP status, 0 over stdio.
type Error struct {
	Code    int
	Message string
	Data    json.RawMessage
	Object  json.RawMessage `json:"-"`
	Status  int             `json:"-"`
}

// Exchange is a request and what came of it. ID is the request's; Before is every
// notification that came after the request was sent and before its answer, in
// wire order, whether it belonged to the request or not.
type Exchange struct {
	ID     string
	Before []Notification
	Result json.RawMessage
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
		pending: map[string]chan message{}, exchanges: map[*Exchange]bool{},
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
	c.mu.Lock()
	declared := c.declared
	c.mu.Unlock()
	result, err := c.Request(ctx, "initialize", initializeParams(declared))
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

// Declare says the capabilities of the client, {} until then. It is for before
// Initialize; in the modern era, for each request after it.
func (c *Client) Declare(capabilities string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.declared = json.RawMessage(capabilities)
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
	x, err := c.Exchange(ctx, method, params)
	return x.Result, err
}

// Exchange is Request, with what came before the answer. The notifications are
// handed out by Notifications as well.
func (c *Client) Exchange(ctx context.Context, method string, params any) (*Exchange, error) {
	c.mu.Lock()
	if c.ended {
		c.mu.Unlock()
		return &Exchange{}, ErrEnded
	}
	c.next++
	x := &Exchange{ID: strconv.Itoa(c.next)}
	answer := make(chan message, 1)
	c.pending[x.ID] = answer
	c.exchanges[x] = true
	raw := marshal(params)
	if c.isModern {
		raw = withModernMeta(raw, c.declared)
	}
	c.mu.Unlock()

	c.send(`{"jsonrpc":"2.0","id":`+x.ID+`,"method":`+string(encode(method)), raw) // if it fails, the server ends
	err := c.wait(ctx, x, answer)
	c.mu.Lock()
	delete(c.exchanges, x)
	c.mu.Unlock()
	return x, err
}

func (c *Client) wait(ctx context.Context, x *Exchange, answer <-chan message) error {
	select {
	case m, ok := <-answer:
		switch {
		case !ok:
			return ErrEnded
		case m.Error != nil:
			return newClientError(m.Error, 0)
		}
		x.Result = m.Result
		return nil
	case <-ctx.Done():
		c.mu.Lock()
		delete(c.pending, x.ID)
		c.mu.Unlock()
		c.Notify("notifications/cancelled", json.RawMessage(`{"requestId":`+x.ID+`}`))
		return ctx.Err()
	}
}

func newClientError(object json.RawMessage, status int) *Error {
	e := &Error{Object: object, Status: status}
	json.Unmarshal(object, e)
	return e
}

// callParams are those of tools/call; no arguments are an empty object.
func callParams(tool string, arguments any) json.RawMessage {
	if arguments == nil {
		arguments = json.RawMessage(`{}`)
	}
	return json.RawMessage(`{"name":` + string(encode(tool)) + `,"arguments":` + string(marshal(arguments)) + `}`)
}

// Call asks for tools/call.
func (c *Client) Call(ctx context.Context, tool string, arguments any) (json.RawMessage, error) {
	return c.Request(ctx, "tools/call", callParams(tool, arguments))
}

// ListTools asks for every page of tools/list and returns the definitions.
func (c *Client) ListTools(ctx context.Context) ([]json.RawMessage, error) {
	return List(ctx, c, "tools/list", "tools")
}

// A Requester is a Client or an HTTPClient.
type Requester interface {
	Request(ctx context.Context, method string, params any) (json.RawMessage, error)
}

// List asks for every page of a list, and returns what the member of the results
// has.
func List(ctx context.Context, c Requester, method, member string) ([]json.RawMessage, error) {
	var all []json.RawMessage
	for params := json.RawMessage(`{}`); ; {
		result, err := c.Request(ctx, method, params)
		if err != nil {
			return nil, err
		}
		var page map[string]json.RawMessage
		if err := json.Unmarshal(result, &page); err != nil {
			return nil, fmt.Errorf("decode %s: %w", method, err)
		}
		var items []json.RawMessage
		var cursor *string
		if err := json.Unmarshal(page[member], &items); err != nil {
			return nil, fmt.Errorf("decode %s of %s: %w", member, method, err)
		}
		all = append(all, items...)
		if json.Unmarshal(page["nextCursor"], &cursor); cursor == nil {
			return all, nil
		}
		params = encode(map[string]string{"cursor": *cursor})
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
		n := Notification{m.Method, m.Params}
		c.mu.Lock()
		for x := range c.exchanges {
			x.Before = append(x.Before, n)
		}
		c.mu.Unlock()
		select {
		case notifications <- n:
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
		for x := range c.exchanges {
			if x.ID == string(m.ID) {
				delete(c.exchanges, x) // what comes from now on came after it
			}
		}
		answer <- m
	}
	return ok
}

// reply answers a request of the server's.
func (c *Client) reply(m message) {
	c.mu.Lock()
	f := c.onRequest
	c.mu.Unlock()
	c.SendLine(response(m, f))
}

// response is the answer to a request of a server's.
func response(m message, f func(method string, params json.RawMessage) (json.RawMessage, *Error)) string {
	var result json.RawMessage
	e := &Error{Code: -32601, Message: "Method not found"}
	switch {
	case f != nil:
		result, e = f(m.Method, m.Params)
	case m.Method == "ping":
		result, e = json.RawMessage(`{}`), nil
	}
	if e != nil {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":%s}}`, m.ID, e.Code, encode(e.Message))
	}
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
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

// withModernMeta adds what every modern request says of its client, unless the
// parameters say it themselves.
func withModernMeta(params, declared json.RawMessage) json.RawMessage {
	members := map[string]json.RawMessage{}
	json.Unmarshal(params, &members)
	meta := map[string]json.RawMessage{
		keyCapabilities: orEmpty(declared),
		keyClientInfo:   json.RawMessage(clientInfo),
		keyVersion:      encode(modern),
	}
	json.Unmarshal(members["_meta"], &meta)
	members["_meta"] = encode(meta)
	return encode(members)
}

const clientInfo = `{"name":"mcptest","version":"1"}`

func initializeParams(declared json.RawMessage) json.RawMessage {
	return json.RawMessage(`{"protocolVersion":"2025-11-25","capabilities":` + string(orEmpty(declared)) + `,"clientInfo":` + clientInfo + `}`)
}

func orEmpty(object json.RawMessage) json.RawMessage {
	if object == nil {
		return json.RawMessage(`{}`)
	}
	return object
}

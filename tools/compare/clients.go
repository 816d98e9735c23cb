//go:build linux

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mcp-metarouter/metarouter/test/mcptest"
)

// The clients of comparisons decode next to nothing, so that they cost little next to what they
// measure. Their requests return the whole answer; the caller looks into it.

// A lineClient is a client of a process over stdio.
type lineClient struct {
	process *exec.Cmd
	in      io.Writer
	ended   chan struct{} // closed at the end of the process's output

	write sync.Mutex // serializes lines to in

	mu      sync.Mutex // guards the fields below
	next    int
	waiting map[int]chan json.RawMessage
}

// newLineClient starts a program and initializes a session. The program is killed at the end of the test.
func newLineClient(t testing.TB, program string, args []string, dir string, env []string) (*lineClient, error) {
	t.Helper()
	cmd := exec.Command(program, args...)
	cmd.Dir, cmd.Env = dir, env
	stderr, err := os.Create(filepath.Join(t.TempDir(), "stderr"))
	if err != nil {
		return nil, err
	}
	defer stderr.Close()
	cmd.Stderr = stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	c := &lineClient{process: cmd, in: in, ended: make(chan struct{}), waiting: map[int]chan json.RawMessage{}}
	go c.read(out)
	t.Cleanup(func() {
		cmd.Process.Kill()
		<-c.ended
		cmd.Wait()
	})
	if err := initializeLean(c, func(line string) error { return c.send([]byte(line)) }); err != nil {
		text, _ := os.ReadFile(stderr.Name())
		return nil, fmt.Errorf("%w\n%s", err, text)
	}
	return c, nil
}

// initializeLean opens a session of the legacy era.
func initializeLean(c mcptest.Requester, notify func(line string) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	params := json.RawMessage(`{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"comparison","version":"1"}}`)
	if _, err := c.Request(ctx, "initialize", params); err != nil {
		return err
	}
	return notify(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
}

func requestLine(id int, method string, params any) []byte {
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`, id, method, params)
}

func (c *lineClient) send(line []byte) error {
	c.write.Lock()
	defer c.write.Unlock()
	_, err := c.in.Write(append(line, '\n'))
	return err
}

func (c *lineClient) read(out io.Reader) {
	defer close(c.ended)
	lines := bufio.NewReaderSize(out, 1<<20)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return
		}
		id, ok := answerID(line)
		if !ok {
			continue
		}
		c.mu.Lock()
		answer := c.waiting[id]
		delete(c.waiting, id)
		c.mu.Unlock()
		if answer != nil {
			answer <- line
		}
	}
}

// Request sends a request with parameters that are a json.RawMessage, and returns the answer.
func (c *lineClient) Request(ctx context.Context, method string, params any) (json.RawMessage, error) {
	answer := make(chan json.RawMessage, 1)
	c.mu.Lock()
	c.next++
	id := c.next
	c.waiting[id] = answer
	c.mu.Unlock()
	if err := c.send(requestLine(id, method, params)); err != nil {
		return nil, err
	}
	select {
	case line := <-answer:
		return line, refusal(line)
	case <-c.ended:
		return nil, errors.New("the process has ended")
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// answerID finds the id of an answer. It decodes only answers that do not begin or end as
// the common SDKs write it.
func answerID(line []byte) (int, bool) {
	if rest, ok := bytes.CutPrefix(line, []byte(`{"jsonrpc":"2.0","id":`)); ok {
		digits, rest, _ := bytes.Cut(rest[:min(len(rest), 40)], []byte(","))
		n, err := strconv.Atoi(string(digits))
		return n, err == nil && !bytes.HasPrefix(rest, []byte(`"method"`))
	}
	var m struct {
		ID     *int
		Method string
	}
	err := json.Unmarshal(line, &m)
	if err != nil || m.ID == nil || m.Method != "" {
		return 0, false
	}
	return *m.ID, true
}

// refusal returns an error if an answer is a JSON-RPC error.
func refusal(answer []byte) error {
	if head := answer[:min(len(answer), 100)]; bytes.Contains(head, []byte(`"error":{`)) {
		return fmt.Errorf("%.300s", answer)
	}
	return nil
}

// A postClient is a client over streamable HTTP. It keeps connections, and writes requests as
// bytes: the client of net/http takes about as much CPU time for a call as a router.
type postClient struct {
	address, path string
	next          atomic.Int64
	session       string // set by the answer to initialize

	mu   sync.Mutex // guards idle
	idle []*postConn
}

// A postConn is a connection that carries one request at a time.
type postConn struct {
	net.Conn
	in   *bufio.Reader
	out  []byte    // buffer for a request
	used time.Time // when a request was sent last
}

// newPostClient initializes a session, and tries until ended is closed or patience is over: the server may not listen yet.
func newPostClient(t testing.TB, url string, ended <-chan struct{}) (*postClient, error) {
	address, path, _ := strings.Cut(strings.TrimPrefix(url, "http://"), "/")
	c := &postClient{address: address, path: "/" + path}
	t.Cleanup(c.close)
	for began := time.Now(); ; time.Sleep(2 * time.Millisecond) {
		err := initializeLean(c, func(line string) error {
			_, err := c.post(context.Background(), []byte(line))
			return err
		})
		switch {
		case err == nil:
			return c, nil
		case time.Since(began) > patience:
			return nil, err
		}
		select {
		case <-ended:
			return nil, err
		default:
		}
	}
}

func (c *postClient) Request(ctx context.Context, method string, params any) (json.RawMessage, error) {
	answer, err := c.post(ctx, requestLine(int(c.next.Add(1)), method, params))
	if err != nil {
		return nil, err
	}
	return answer, refusal(answer)
}

// post sends a message and returns the whole body of the response, which may be a stream of events.
func (c *postClient) post(ctx context.Context, message []byte) ([]byte, error) {
	conn, err := c.acquire(ctx)
	if err != nil {
		return nil, err
	}
	keep := false
	defer func() {
		if keep {
			c.release(conn)
		} else {
			conn.Close()
		}
	}()
	deadline, _ := ctx.Deadline() // the zero time is no deadline
	conn.SetDeadline(deadline)
	conn.used = time.Now()
	conn.out = fmt.Appendf(conn.out[:0], "POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\nContent-Length: %d\r\n",
		c.path, c.address, len(message))
	if c.session != "" {
		conn.out = fmt.Appendf(conn.out, "Mcp-Session-Id: %s\r\nMCP-Protocol-Version: 2025-06-18\r\n", c.session)
	}
	conn.out = append(append(conn.out, "\r\n"...), message...)
	if _, err := conn.Write(conn.out); err != nil {
		return nil, err
	}
	response, err := http.ReadResponse(conn.in, nil)
	if err != nil {
		return nil, err
	}
	var whole bytes.Buffer
	whole.Grow(int(max(0, response.ContentLength)) + bytes.MinRead)
	if _, err := whole.ReadFrom(response.Body); err != nil {
		return nil, err
	}
	if response.StatusCode >= 300 {
		return nil, fmt.Errorf("HTTP status %d: %.300s", response.StatusCode, whole.Bytes())
	}
	if id := response.Header.Get("Mcp-Session-Id"); id != "" && c.session == "" {
		c.session = id
	}
	keep = !response.Close
	return whole.Bytes(), nil
}

// acquire returns a connection that carries no request.
func (c *postClient) acquire(ctx context.Context) (*postConn, error) {
	c.mu.Lock()
	for len(c.idle) > 0 {
		last := len(c.idle) - 1
		conn := c.idle[last]
		c.idle = c.idle[:last]
		if time.Since(conn.used) < 5*time.Second { // servers close connections that are idle for long
			c.mu.Unlock()
			return conn, nil
		}
		conn.Close()
	}
	c.mu.Unlock()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", c.address)
	if err != nil {
		return nil, err
	}
	return &postConn{Conn: conn, in: bufio.NewReaderSize(conn, 64<<10)}, nil
}

func (c *postClient) release(conn *postConn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.idle = append(c.idle, conn)
}

func (c *postClient) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range c.idle {
		conn.Close()
	}
}

package adapter

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"

	"github.com/mcp-metarouter/metarouter/internal/clusternode"
	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/signal"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/test/expect"
	"github.com/mcp-metarouter/metarouter/test/mcptest"
)

// A farNode is another node, box, with one server, gpu. Its own node dials it over pipes.
type farNode struct {
	clusterNode // for the methods that remotes do not need
	id          *clusternode.Identity
	terms       clusternode.Terms
	degraded    bool
	handle      func(farRequest) (json.RawMessage, error) // nil answers each call with its arguments
	refuse      error                                     // of Dial: the server is gone
	fails       []error                                   // of the next times that it is dialled

	mu    sync.Mutex // guards the fields below
	ends  []net.Conn // its own, of all streams
	heard []wire.Message
}

// A farRequest is a request as the other node gets it.
type farRequest struct {
	wire.Message
	server string
	about  clusternode.Request
	meta   json.RawMessage
}

func newFarNode(t testing.TB) *farNode {
	id, err := clusternode.OpenIdentity(filepath.Join(t.TempDir(), "node.nk"))
	expect.OK(t, err)
	return &farNode{id: id}
}

func (f *farNode) Key() string                            { return f.id.Key() }
func (f *farNode) Sign(data []byte) ([]byte, error)       { return f.id.Sign(data) }
func (f *farNode) Terms(string) (clusternode.Terms, bool) { return f.terms, f.refuse == nil }
func (f *farNode) Dial(ctx context.Context, server string) (clusternode.Stream, error) {
	if f.refuse != nil {
		return clusternode.Stream{}, f.refuse
	}
	here, there := net.Pipe()
	f.mu.Lock()
	if len(f.fails) > 0 {
		defer f.mu.Unlock()
		err := f.fails[0]
		f.fails = f.fails[1:]
		return clusternode.Stream{}, err
	}
	f.ends = append(f.ends, there)
	f.mu.Unlock()
	name, _, _ := strings.Cut(server, "@")
	go f.serve(there, name)
	return clusternode.Stream{Conn: here, Server: name, Key: f.id.Key(), Node: "box"}, nil
}

// dialled returns how many streams there were.
func (f *farNode) dialled() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.ends)
}

// hangUp ends the latest stream.
func (f *farNode) hangUp() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ends[len(f.ends)-1].Close()
}

// methods returns the methods of all messages, without the handshakes.
func (f *farNode) methods() (all []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, m := range f.heard {
		all = append(all, m.Method)
	}
	return all
}

func (f *farNode) serve(conn net.Conn, server string) {
	defer conn.Close()
	var writing sync.Mutex
	write := func(line []byte) {
		writing.Lock()
		defer writing.Unlock()
		conn.Write(line)
	}
	for lines := bufio.NewScanner(conn); lines.Scan(); {
		m, err := wire.Parse([]byte(lines.Text()))
		if err != nil {
			panic(err)
		}
		switch m.Method {
		case "server/discover":
			write(wire.AppendResult(nil, m.ID, []byte(`{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{"listChanged":true},"resources":{"subscribe":true}}}`)))
			continue
		case "initialize":
			write(wire.AppendResult(nil, m.ID, []byte(`{"protocolVersion":"2025-11-25","capabilities":{"logging":{}},"serverInfo":{"name":"gpu","version":"1"}}`)))
			continue
		}
		f.mu.Lock()
		f.heard = append(f.heard, m)
		f.mu.Unlock()
		if m.Method == "subscriptions/listen" {
			write([]byte(`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"notifications":` + string(wire.Member(m.Params, "notifications")) + "}}\n"))
			write([]byte(`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"doc://a"}}` + "\n"))
		} else if m.IsRequest() {
			go func() { write(f.answer(m, server)) }()
		}
	}
}

// answer returns the answer to a request as a line.
func (f *farNode) answer(m wire.Message, server string) []byte {
	r := farRequest{Message: m, server: server, meta: wire.Member(m.Params, "_meta")}
	json.Unmarshal(wire.Member(r.meta, clusternode.MetaKey), &r.about)
	result := json.RawMessage(fmt.Appendf(nil, `{"content":[{"type":"text","text":"%s"}],"_meta":{"server":"gpu"}}`, wire.Member(wire.Member(m.Params, "arguments"), "n")))
	if f.handle != nil {
		var failed error
		if result, failed = f.handle(r); failed != nil {
			own, ok := errors.AsType[*session.Error](failed)
			if !ok {
				own = &session.Error{Code: session.CodeInternal, Message: failed.Error(), Data: json.RawMessage(`{"metarouter":{"outcome":"not_sent"}}`)}
			}
			return wire.AppendError(nil, m.ID, wire.Marshal(own))
		}
	}
	if m.Method == "tools/call" && wire.Member(result, "inputRequests") == nil && wire.Member(wire.Member(result, "_meta"), clusternode.MetaKey) == nil {
		result = f.sign(r, m.Params, result)
	}
	return wire.AppendResult(nil, m.ID, result)
}

func (f *farNode) sign(r farRequest, params, result json.RawMessage) json.RawMessage {
	tool, _ := wire.String(wire.Member(params, "name"))
	signature, err := f.id.Sign(clusternode.Signed{ID: r.about.ID, Owner: f.id.Key(), Caller: f.Key(), Server: r.server, Tool: tool, Params: params, Result: result}.Bytes())
	if err != nil {
		panic(err)
	}
	meta := wire.Member(result, "_meta")
	if meta == nil {
		meta = []byte("{}")
	}
	return wire.SetMember(result, "_meta", wire.SetMember(meta, clusternode.MetaKey, wire.Marshal(clusternode.Answer{Signature: signature, Degraded: f.degraded})))
}

// A heardMessage is one that belongs to no request.
type heardMessage struct {
	server string
	owner  session.Client
	session.Message
}

// near returns the streams of a router to the node, until the test ends.
func near(t testing.TB, f *farNode, log *zap.Logger) (*remotes, <-chan heardMessage) {
	heard := make(chan heardMessage, 99)
	r := &remotes{
		node: f, version: "1", log: log, all: make(map[streamKey]*remoteStream),
		hear: func(server string, owner session.Client, m session.Message) { heard <- heardMessage{server, owner, m} },
	}
	r.life, r.end = context.WithCancelCause(context.Background())
	t.Cleanup(r.close)
	return r, heard
}

func echoRequest(arguments string, from session.Client) session.Request {
	return session.Request{Method: "tools/call", Params: json.RawMessage(`{"name":"echo","arguments":` + arguments + `}`), From: from, Ran: new(session.Run)}
}

func mustSession(t testing.TB, r *remotes, from session.Client) session.Session {
	t.Helper()
	s, err := r.Session(t.Context(), "gpu@box", from)
	expect.OK(t, err)
	return s
}

// A nearClient is a client of this router.
type nearClient struct {
	sink
	name         string
	home         session.Client
	modern       bool
	capabilities string
}

func (c *nearClient) Home() session.Client { return c.home }
func (c *nearClient) ClientName() string   { return c.name }
func (c *nearClient) Modern() bool         { return c.modern }
func (c *nearClient) Capabilities() json.RawMessage {
	return json.RawMessage(cmp.Or(c.capabilities, "{}"))
}

// A request has an ID, its origin, its deadline and its client's name; its result has a signature, which
// is checked and taken off.
func TestRemoteCall(t *testing.T) {
	f := newFarNode(t)
	f.degraded = true
	var got farRequest
	f.handle = func(r farRequest) (json.RawMessage, error) {
		got = r
		return json.RawMessage(`{"content" : [],"isError":false,"_meta":{"server":"gpu"}}`), nil
	}
	all, _ := near(t, f, zaptest.NewLogger(t))
	s := mustSession(t, all, nil)
	r := echoRequest(`{"n":1, "b":[]}`, &nearClient{name: "Zed"})
	r.Origin = session.NewOrigin("dev", nil, "", "ann")
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	deadline, _ := ctx.Deadline()
	result, err := s.Call(ctx, r)
	if err != nil || string(result) != `{"content" : [],"isError":false,"_meta":{"server":"gpu"}}` {
		t.Errorf("got %s, %v", result, err)
	}
	if ran := *r.Ran; !slices.Equal(ran.Nodes, []string{"box"}) || !ran.Verified || !ran.Degraded || ran.Kept {
		t.Errorf("it ran %+v", ran)
	}
	if about := got.about; len(about.ID) < 20 || about.Origin.Name != "ann" || about.Deadline != deadline.Add(deadlineSlack).UnixMilli() {
		t.Errorf("the node got %s", got.meta)
	}
	if name := string(wire.Member(wire.Member(got.meta, clientInfo), "name")); name != `"Zed"` || string(wire.Member(got.Params, "arguments")) != `{"n":1, "b":[]}` {
		t.Errorf("the node got %s", got.Params)
	}
	f.handle = func(farRequest) (json.RawMessage, error) { return json.RawMessage(`{"content":[]}`), nil }
	if result, err := s.Call(ctx, r); err != nil || string(result) != `{"content":[]}` {
		t.Errorf("a result without _meta: %s, %v", result, err)
	}
}

// Requests over the shared stream have the level of log messages that legacy clients want.
func TestRemoteLogLevel(t *testing.T) {
	f := newFarNode(t)
	var got json.RawMessage
	f.handle = func(r farRequest) (json.RawMessage, error) {
		got = wire.Member(r.meta, logLevel)
		return json.RawMessage(`{"content":[]}`), nil
	}
	all, _ := near(t, f, zap.NewNop())
	s := mustSession(t, all, nil)
	all.SetLevel(t.Context(), "debug")
	for _, tt := range []struct {
		from session.Client
		want string
	}{{&nearClient{}, `"debug"`}, {&nearClient{modern: true}, ""}, {nil, ""}} {
		if _, err := s.Call(t.Context(), echoRequest(`{}`, tt.from)); err != nil || string(got) != tt.want {
			t.Errorf("%+v: level %s, %v", tt.from, got, err)
		}
	}
}

// A result without the node's signature for this very call is dropped.
func TestRemoteSignature(t *testing.T) {
	f := newFarNode(t)
	other := newFarNode(t)
	all, _ := near(t, f, zap.NewNop())
	s := mustSession(t, all, nil)
	result := json.RawMessage(`{"content":[]}`)
	for name, forged := range map[string]func(farRequest) json.RawMessage{
		"no signature": func(farRequest) json.RawMessage {
			return json.RawMessage(`{"content":[],"_meta":{"metarouter/node":{}}}`)
		},
		"no member": func(farRequest) json.RawMessage {
			return json.RawMessage(`{"content":[],"_meta":{"metarouter/node":7}}`)
		},
		"another call": func(r farRequest) json.RawMessage { return f.sign(farRequest{server: "gpu"}, r.Params, result) },
		"another key":  func(r farRequest) json.RawMessage { return other.sign(r, r.Params, result) },
		"another tool": func(r farRequest) json.RawMessage {
			return f.sign(r, []byte(`{"name":"x","arguments":{}}`), result)
		},
		"other arguments": func(r farRequest) json.RawMessage { return f.sign(r, []byte(`{"name":"echo"}`), result) },
		"an edited result": func(r farRequest) json.RawMessage {
			return wire.SetMember(f.sign(r, r.Params, result), "isError", []byte("true"))
		},
		"an edited content": func(r farRequest) json.RawMessage {
			return wire.SetMember(f.sign(r, r.Params, result), "content", []byte("[1]"))
		},
	} {
		f.handle = func(r farRequest) (json.RawMessage, error) { return forged(r), nil }
		r := echoRequest(`{}`, nil)
		if got, err := s.Call(t.Context(), r); !errors.Is(err, session.ErrClosed) || got != nil || r.Ran.Verified {
			t.Errorf("%s: %s, %v", name, got, err)
		}
	}
}

// The errors of another node say whether the request was sent to the server.
func TestRemoteErrors(t *testing.T) {
	f := newFarNode(t)
	all, _ := near(t, f, zap.NewNop())
	for name, tt := range map[string]struct {
		fails *session.Error
		is    error // nil is the very error of the server
		text  string
	}{
		"own":      {&session.Error{Code: -5, Message: "no", Data: json.RawMessage(`{"metarouter":"self"}`)}, nil, "no"},
		"not sent": {&session.Error{Code: session.CodeInternal, Message: "it is\nfull", Data: json.RawMessage(`{"metarouter":{"outcome":"not_sent"}}`)}, session.ErrNotSent, `node "box": it is full`},
		"closed":   {&session.Error{Code: session.CodeInternal, Message: "it ended", Data: json.RawMessage(`{"metarouter":{"outcome":"closed"}}`)}, session.ErrClosed, `node "box": it ended`},
	} {
		f.handle = func(farRequest) (json.RawMessage, error) { return nil, tt.fails }
		_, err := mustSession(t, all, nil).Call(t.Context(), echoRequest(`{}`, nil))
		own, isOwn := errors.AsType[*session.Error](err)
		if isOwn != (tt.is == nil) || isOwn && own.Code != tt.fails.Code || tt.is != nil && !errors.Is(err, tt.is) || !strings.Contains(err.Error(), tt.text) {
			t.Errorf("%s: %v", name, err)
		}
	}
	f.handle = func(farRequest) (json.RawMessage, error) {
		f.hangUp()
		return json.RawMessage(`{}`), nil
	}
	if _, err := mustSession(t, all, nil).Call(t.Context(), echoRequest(`{}`, nil)); !errors.Is(err, session.ErrClosed) || !strings.Contains(err.Error(), `node "box"`) {
		t.Errorf("the stream ended during the call: %v", err)
	}
	f.refuse = fmt.Errorf("%w: no router is there", session.ErrNotSent)
	_, err := all.Session(t.Context(), "gpu@box", nil)
	expect.Equal(t, err, f.refuse, "a node that is not there")
}

// All clients share one stream, which is dialled again if it has ended.
func TestRemoteStreamIsShared(t *testing.T) {
	f := newFarNode(t)
	all, _ := near(t, f, zap.NewNop())
	var calling sync.WaitGroup
	for range 50 {
		calling.Go(func() {
			s, err := all.Session(t.Context(), "gpu@box", &nearClient{capabilities: `{"elicitation":{}}`})
			if err == nil {
				_, err = s.Call(t.Context(), echoRequest(`{}`, nil))
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	calling.Wait()
	expect.Equal(t, f.dialled(), 1, "streams")
	s := mustSession(t, all, nil)
	f.hangUp()
	<-s.Done()
	if _, err := s.Call(t.Context(), echoRequest(`{}`, nil)); !errors.Is(err, session.ErrNotSent) {
		t.Errorf("a stream that has ended: %v", err)
	}
	s = mustSession(t, all, nil)
	if _, err := s.Call(t.Context(), echoRequest(`{}`, nil)); err != nil || f.dialled() != 2 {
		t.Errorf("after the end of the stream: %v, %d streams", err, f.dialled())
	}
	all.Forget("gpu@box")
	<-s.Done()
	f.refuse = session.ErrNotSent
	if _, err := s.Call(t.Context(), echoRequest(`{}`, nil)); !errors.Is(err, session.ErrNotSent) {
		t.Errorf("a server that is gone: %v", err)
	}
}

// A stream that can't be opened is dialled again for a while, unless the other node refuses.
func TestRemoteDialsAgain(t *testing.T) {
	down := fmt.Errorf("%w: there is no connection to NATS", session.ErrNotSent)
	refused := fmt.Errorf("%w: %w", session.ErrNotSent, session.ErrForbidden)
	for name, tt := range map[string]struct {
		fails []error
		is    error
		after time.Duration
	}{
		"a short loss": {[]error{down, down, down}, nil, 700 * time.Millisecond},
		"a long loss":  {slices.Repeat([]error{down}, 20), down, dialTime},
		"a refusal":    {[]error{down, refused}, session.ErrForbidden, 100 * time.Millisecond},
	} {
		f := newFarNode(t)
		synctest.Test(t, func(t *testing.T) {
			all, _ := near(t, f, zap.NewNop())
			f.fails = tt.fails
			start := time.Now()
			_, err := all.Session(t.Context(), "gpu@box", nil)
			if !errors.Is(err, tt.is) || time.Since(start) != tt.after {
				t.Errorf("%s: %v after %s", name, err, time.Since(start))
			}
			all.close()
		})
	}
}

// When a server is forgotten, its stream ends with the last call under way, at the latest after a while.
func TestRemoteForget(t *testing.T) {
	f := newFarNode(t)
	synctest.Test(t, func(t *testing.T) {
		all, _ := near(t, f, zap.NewNop())
		for _, answered := range []bool{true, false} {
			goOn := make(chan bool)
			f.handle = func(farRequest) (json.RawMessage, error) {
				<-goOn
				return json.RawMessage(`{"content":[]}`), nil
			}
			s, ended := mustSession(t, all, nil), make(chan error, 1)
			_, err := s.Subscribe(t.Context(), "doc://a")
			expect.OK(t, err)
			go func() {
				_, err := s.Call(t.Context(), echoRequest(`{}`, nil))
				ended <- err
			}()
			synctest.Wait()
			all.Forget("gpu@box")
			time.Sleep(lastCalls - 1)
			synctest.Wait()
			if len(ended) > 0 || signal.IsClosed(s.Done()) {
				t.Fatal("a call under way has ended")
			}
			f.refuse = session.ErrNotSent
			if _, err := all.Session(t.Context(), "gpu@box", nil); !errors.Is(err, session.ErrNotSent) {
				t.Errorf("a call after the server was forgotten: %v", err)
			}
			if _, err := s.Call(t.Context(), echoRequest(`{}`, nil)); !errors.Is(err, session.ErrNotSent) {
				t.Errorf("another call over the stream: %v", err)
			}
			f.refuse = nil
			if answered {
				close(goOn)
			}
			if err := <-ended; answered != (err == nil) || err != nil && !errors.Is(err, session.ErrClosed) {
				t.Errorf("the call ended with %v", err)
			}
			<-s.Done()
			if !answered {
				close(goOn)
			}
		}
		all.close()
	})
}

// A call in which the server asks its client is under way until its last round.
func TestRemoteForgetWhileAPersonAnswers(t *testing.T) {
	f := newFarNode(t)
	synctest.Test(t, func(t *testing.T) {
		all, _ := near(t, f, zap.NewNop())
		f.handle = func(r farRequest) (json.RawMessage, error) {
			if wire.Member(r.Params, "inputResponses") == nil {
				return json.RawMessage(`{"resultType":"input_required","inputRequests":{"a":{"method":"elicitation/create","params":{}}},"requestState":"s"}`), nil
			}
			return json.RawMessage(`{"content":[]}`), nil
		}
		from := &caller{ask: func(context.Context, json.RawMessage) (string, error) {
			all.Forget("gpu@box")
			synctest.Wait()
			return "accept", nil
		}}
		_, err := mustSession(t, all, nil).Call(t.Context(), echoRequest(`{}`, from))
		expect.OK(t, err)
		all.close()
	})
}

// A shared stream ends when it is not used, and not while a client subscribes to a resource.
func TestRemoteStreamIdles(t *testing.T) {
	f := newFarNode(t)
	synctest.Test(t, func(t *testing.T) {
		all, heard := near(t, f, zap.NewNop())
		s := mustSession(t, all, nil)
		cancel, err := s.Subscribe(t.Context(), "doc://a")
		if m := <-heard; err != nil || m.server != "gpu@box" || m.owner != nil || m.Method != "notifications/resources/updated" {
			t.Errorf("heard %+v, %v", m, err)
		}
		time.Sleep(time.Hour)
		if n := f.dialled(); n != 1 || len(all.opened(func(streamKey) bool { return true })) != 1 {
			t.Errorf("%d streams during a subscription", n)
		}
		cancel()
		time.Sleep(remoteIdle / 2)
		synctest.Wait()
		select {
		case <-s.Done():
		default:
			t.Error("a stream without calls and subscriptions for an hour is open")
		}
		if _, err := mustSession(t, all, nil).Call(t.Context(), echoRequest(`{}`, nil)); err != nil || f.dialled() != 2 {
			t.Errorf("after a pause: %v, %d streams", err, f.dialled())
		}
		time.Sleep(2 * remoteIdle)
		expect.Equal(t, len(all.opened(func(streamKey) bool { return true })), 0, "an unused stream is open")
		all.close()
		if _, err := all.Session(t.Context(), "gpu@box", nil); !errors.Is(err, session.ErrNotSent) || !strings.Contains(err.Error(), "left the cluster") {
			t.Errorf("after the end: %v", err)
		}
	})
}

// A client with a session that can be asked has a stream of its own to a server that asks, until it
// leaves: in either era.
func TestRemoteStreamOfClient(t *testing.T) {
	f := newFarNode(t)
	f.terms.Asks = true
	all, _ := near(t, f, zap.NewNop())
	home := &nearClient{name: "home", capabilities: `{"elicitation":{},"roots":{}}`}
	home.home = home
	all.SetLevel(t.Context(), "debug")
	from := &nearClient{home: home, modern: true, capabilities: home.capabilities}
	own, r := mustSession(t, all, from), echoRequest(`{}`, from)
	if _, err := own.Call(t.Context(), r); err != nil || !r.Ran.Kept {
		t.Errorf("%v, it ran %+v", err, r.Ran)
	}
	mute := &nearClient{}
	mute.home = mute
	for _, from := range []session.Client{nil, mute, home, &nearClient{home: home}, &nearClient{capabilities: home.capabilities}} {
		mustSession(t, all, from)
	}
	expect.Equal(t, f.dialled(), 2, "streams")
	all.Notify(home, "notifications/roots/list_changed", nil)
	all.SetLevel(t.Context(), "info")
	mcptest.WaitFor(t, "all messages", func() bool { return len(f.methods()) == 5 })
	all.Release(home)
	<-own.Done()
	if got := f.methods(); !slices.Equal(slices.Sorted(slices.Values(got)), []string{
		"logging/setLevel", "logging/setLevel", "notifications/initialized", "notifications/roots/list_changed", "tools/call",
	}) {
		t.Errorf("the node got %q", got)
	}
	expect.Equal(t, len(all.opened(func(streamKey) bool { return true })), 1, "the shared stream is gone")
}

// A client of the modern era gets the questions of another node, and answers them with another request.
func TestRemoteSuspends(t *testing.T) {
	f := newFarNode(t)
	const asks = `{"resultType":"input_required","inputRequests":{"q":{"method":"elicitation/create","params":{}}},"requestState":"a:b"}`
	f.handle = func(r farRequest) (json.RawMessage, error) {
		if string(wire.Member(r.Params, "requestState")) != `"a:b"` {
			return json.RawMessage(asks), nil
		}
		return json.RawMessage(`{"content":[]}`), nil
	}
	all, _ := near(t, f, zap.NewNop())
	client := &nearClient{modern: true, capabilities: `{"elicitation":{}}`}
	r := echoRequest(`{"n":1}`, client)
	s := mustSession(t, all, client)
	if result, err := s.Call(t.Context(), r); err != nil || string(result) != asks || r.Ran.Verified {
		t.Errorf("got %s, %v", result, err)
	}
	r.Params = wire.SetMember(r.Params, "requestState", []byte(`"a:b"`))
	if result, err := s.Call(t.Context(), r); err != nil || !r.Ran.Verified {
		t.Errorf("got %s, %v", result, err)
	}
}

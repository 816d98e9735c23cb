package peer

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"go.uber.org/goleak"

	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/signal"
	"github.com/mcp-metarouter/metarouter/internal/status"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A script is the server's side of a peer under test.
type script struct {
	t   *testing.T
	in  *bufio.Reader // what the peer writes
	out *io.PipeWriter
}

// A line is a link that writes messages in the order in which they come.
type line struct {
	waiting chan *Outgoing
	ended   <-chan struct{}
}

func (l line) Send(ctx context.Context, m *Outgoing) error {
	select {
	case <-l.ended:
		return session.ErrClosed
	default:
		l.waiting <- m
		return nil
	}
}

func (l line) write(w io.Writer) {
	for {
		select {
		case m := <-l.waiting:
			if _, err := w.Write(m.Line); err != nil {
				return
			}
		case <-l.ended:
			return
		}
	}
}

// pair returns a peer and the server's side of it. The peer ends with the test.
func pair(t *testing.T) (*Peer, *script) {
	fromPeer, toServer := io.Pipe()
	fromServer, out := io.Pipe()
	link := line{waiting: make(chan *Outgoing, 1000)}
	p := New(Host{
		Server: "s",
		Stray:  func(line []byte, why error) { t.Logf("stray: %.40q %v", line, why) },
		Asked:  func(string) {},
		Owner:  func() session.Client { return nil },
	}, func(c *Conn) Link {
		link.ended = c.Done()
		return link
	})
	var serving sync.WaitGroup
	serving.Go(func() {
		link.write(toServer)
		p.Close(errors.New("nothing can be written"))
	})
	serving.Go(func() {
		receive(p.Conn, fromServer)
		p.Close(errors.New("it ended"))
	})
	t.Cleanup(func() {
		out.Close()
		fromPeer.Close()
		serving.Wait()
	})
	return p, &script{t, bufio.NewReader(fromPeer), out}
}

// receive hands the messages in r to c, a message a line.
func receive(c *Conn, r io.Reader) {
	lines := wire.NewReader(r, wire.MaxLine)
	for {
		c.Budget.Pace(c.Done())
		line, err := lines.Next()
		if err != nil {
			return
		}
		m, err := wire.Parse(line)
		if err == nil {
			err = c.Receive(m, 0)
		}
		if err != nil {
			c.SkipLine(line, wire.Ends{Head: line, Tail: line}, err)
		}
	}
}

func (s *script) read() wire.Message {
	s.t.Helper()
	line, err := s.in.ReadBytes('\n')
	if err != nil {
		s.t.Errorf("the server's side: %v", err)
		return wire.Message{}
	}
	m, err := wire.Parse(line)
	expect.OK(s.t, err, "the peer wrote %q", line)
	return m
}

func (s *script) write(format string, args ...any) { fmt.Fprintf(s.out, format+"\n", args...) }

func TestCallPassesBytes(t *testing.T) {
	p, s := pair(t)
	const params, want = `{"b":12345678901234567890,"a":"é"}`, `{"z":1e400,"content":[{"type":"new"}],"a":1.0}`
	go func() {
		m := s.read()
		expect.Equal(t, string(m.Params), params, "params arrived as")
		s.write("Banner! %d", 1)
		s.write(`{"level":30,"msg":"a log line"}`)
		s.write(`{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"?"}}`)
		s.write(`{"jsonrpc":"2.0","id":99,"result":{}}`)
		s.write(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, want)
	}()
	got, err := p.Call(t.Context(), session.Request{Method: "tools/call", Params: json.RawMessage(params)})
	if err != nil || string(got) != want {
		t.Errorf("Call = %s, %v, want %s", got, err, want)
	}
	expect.Equal(t, reported(p).StrayLines, 4, "lines counted as strays")
}

func TestCallKeepsError(t *testing.T) {
	p, s := pair(t)
	go func() {
		s.write(`{"id":%s,"error":{"code":-32042,"message":"no <go>","data":{"x":[1,2]}}}`, s.read().ID)
	}()
	_, err := p.Call(t.Context(), session.Request{Method: "m"})
	var e *session.Error
	if !errors.As(err, &e) || e.Code != -32042 || e.Message != "no <go>" || string(e.Data) != `{"x":[1,2]}` {
		t.Errorf("error = %#v", err)
	}
}

// What a server sends before a result is heard before Call returns.
func TestListenInWireOrder(t *testing.T) {
	p, s := pair(t)
	var heard []string // written on the reading goroutine, read after Call
	p.host.Message = func(m session.Message) { heard = append(heard, string(m.Params)) }
	go func() {
		m := s.read()
		for i := range 1000 {
			s.write(`{"method":"notifications/x","params":{"i":%d}}`, i)
		}
		s.write(`{"id":%s,"result":{}}`, m.ID)
	}()
	_, err := p.Call(t.Context(), session.Request{Method: "m"})
	expect.OK(t, err)
	if len(heard) != 1000 || heard[999] != `{"i":999}` {
		t.Errorf("%d notifications were heard before the result, want 1000 in order", len(heard))
	}
}

// Parameters that are not used may be anything. Others are an object with each key once.
func TestParametersOfServers(t *testing.T) {
	p, s := pair(t)
	var heard []string // written on the reading goroutine, read after Call
	p.host.Message = func(m session.Message) { heard = append(heard, m.Method+string(m.Params)) }
	go func() {
		m := s.read()
		for _, params := range []string{"null", "[ ]", "[1]", `"x"`, `{"a":1,"a":1}`} {
			s.write(`{"method":"notifications/tools/list_changed","params":%s}`, params)
			s.write(`{"method":"notifications/x","params":%s}`, params)
		}
		s.write(`{"id":%s,"result":{"n":1},"params":{"a":1,"a":1}}`, m.ID)
	}()
	if raw, err := p.Call(t.Context(), session.Request{Method: "m"}); err != nil || string(raw) != `{"n":1}` {
		t.Fatalf("the call: %s, %v", raw, err)
	}
	want := slices.Repeat([]string{"notifications/tools/list_changed", "notifications/x"}, 4)
	if want = append(want, "notifications/tools/list_changed"); !slices.Equal(heard, want) {
		t.Errorf("heard %q, want %q", heard, want)
	}
	for _, r := range []session.Request{
		{Method: "m", Params: []byte(`{"a":1,"a":2}`)}, {Method: "m", Params: []byte(`{"a":1}},"id":1`)}, {Method: "m", Params: []byte(`[1]`), Meta: []byte(`{"a":1}`)},
		{Method: "m", Params: []byte(`{}`), Meta: []byte(`{"a":1,"a":2}`)},
	} {
		_, err := p.Call(t.Context(), r)
		expect.Error(t, err, "params: ", "%s, %s", r.Params, r.Meta)
	}
}

func TestCallCancelled(t *testing.T) {
	p, s := pair(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	notified := make(chan string, 1)
	go func() {
		call := s.read()
		cancel(errors.New("the user left"))
		m := s.read()
		notified <- fmt.Sprint(m.Method, string(wire.Member(m.Params, "requestId")) == string(call.ID))
		s.write(`{"id":%s,"result":{}}`, call.ID) // too late, and harmless
	}()
	if _, err := p.Call(ctx, session.Request{Method: "m"}); err == nil || err.Error() != "the user left" {
		t.Errorf("error = %v", err)
	}
	expect.Equal(t, <-notified, "notifications/cancelledtrue", "the server was notified of")
}

// A call that is given up says that an event of its answer has no end, whichever stream it is on.
func TestCallOfOpenEvent(t *testing.T) {
	for name, open := range map[string]func(*Conn, *Outgoing){
		"its own stream":  func(_ *Conn, o *Outgoing) { o.OpenEvent.Store(true) },
		"that of all":     func(c *Conn, _ *Outgoing) { c.OpenEvent.Store(true) },
		"none of streams": func(*Conn, *Outgoing) {},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		var c *Conn
		p := New(Host{Server: "s"}, func(conn *Conn) Link {
			c = conn
			return linkOf(func(o *Outgoing) {
				if o.ID != 0 {
					open(c, o)
					cancel()
				}
			})
		})
		_, err := p.Call(ctx, session.Request{Method: "tools/call"})
		if !errors.Is(err, context.Canceled) || errors.Is(err, session.ErrOpenEvent) != (name != "none of streams") {
			t.Errorf("%s: %v", name, err)
		}
		p.Close(errors.New("done"))
	}
}

// linkOf is a link that only calls a function.
type linkOf func(*Outgoing)

func (f linkOf) Send(_ context.Context, o *Outgoing) error { f(o); return nil }

func TestServerRequestsAnswered(t *testing.T) {
	_, s := pair(t)
	s.write(`{"id":"p","method":"ping"}`)
	if m := s.read(); string(m.ID) != `"p"` || string(m.Result) != "{}" {
		t.Errorf("ping was answered with %s", m.Result)
	}
	s.write(`{"id":7,"method":"log"}`)
	if m := s.read(); string(m.ID) != "7" || string(wire.Member(m.Error, "code")) != "-32601" {
		t.Errorf("a request that no client answers was answered with %s", m.Error)
	}
}

func TestSessionEnds(t *testing.T) {
	p, s := pair(t)
	go func() {
		s.read()
		s.out.Close()
	}()
	_, err := p.Call(t.Context(), session.Request{Method: "m"})
	if !errors.Is(err, session.ErrClosed) || errors.Is(err, session.ErrNotSent) {
		t.Errorf("the call under way: %v, want ErrClosed", err)
	}
	if _, err := p.Call(t.Context(), session.Request{Method: "m"}); !errors.Is(err, session.ErrNotSent) {
		t.Errorf("a later call: %v, want ErrNotSent", err)
	}
}

func TestRefuseDrains(t *testing.T) {
	p, s := pair(t)
	begun, done := make(chan json.RawMessage, 1), make(chan error, 1)
	go func() {
		_, err := p.Call(t.Context(), session.Request{Method: "m"})
		done <- err
	}()
	begun <- s.read().ID
	p.Calls.Refuse()
	if _, err := p.Call(t.Context(), session.Request{Method: "m"}); !errors.Is(err, session.ErrNotSent) {
		t.Errorf("a call on a draining session: %v, want ErrNotSent", err)
	}
	quiet := p.Calls.Idle()
	if signal.IsClosed(quiet) {
		t.Error("quiet with a call under way")
	}
	s.write(`{"id":%s,"result":{}}`, <-begun)
	expect.OK(t, <-done)
	<-quiet
}

func TestStamp(t *testing.T) {
	const modern = `{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`
	theirs := json.RawMessage(`{"progressToken":"t","io.modelcontextprotocol/clientCapabilities":{"roots":{}},"x":9007199254740993}`)
	for name, tc := range map[string]struct {
		meta          string // of the session; "" if legacy
		request       session.Request
		params, token string
	}{
		"modern, the router itself": {modern, session.Request{}, `{"_meta":` + modern + `}`, ""},
		"modern, with parameters":   {modern, session.Request{Params: json.RawMessage(`{"a":1}`)}, `{"a":1,"_meta":` + modern + `}`, ""},
		"modern, for a modern client": {modern, session.Request{Meta: theirs, From: &client{}},
			`{"_meta":{"progressToken":7,"io.modelcontextprotocol/clientCapabilities":{"roots":{}},"x":9007199254740993,"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}`, `"t"`},
		"modern, for a legacy client": {modern, session.Request{From: &client{capabilities: `{"sampling":{}}`}},
			`{"_meta":{"io.modelcontextprotocol/clientCapabilities":{"sampling":{}},"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}`, ""},
		"legacy, for a modern client": {"", session.Request{Params: json.RawMessage(`{ }`), Meta: theirs, From: &client{}},
			`{ "_meta":{"progressToken":7,"x":9007199254740993}}`, `"t"`},
		"legacy, nothing to say": {"", session.Request{Meta: json.RawMessage(`{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}`)}, ``, ""},
	} {
		var own json.RawMessage
		if tc.meta != "" {
			own = json.RawMessage(tc.meta)
		}
		params, token := stamp(own, nil, tc.request, 7)
		if string(params) != tc.params || string(token) != tc.token {
			t.Errorf("%s: %s with token %s, want %s with %s", name, params, token, tc.params, tc.token)
		}
	}
}

const initializeResult = `{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"},"instructions":"hi"}`

// A server's long name is cut; each result of its tools would have the version.
func TestLongServerInfo(t *testing.T) {
	long := strings.Repeat("é", 1<<20)
	info := implementation{Name: long, Version: long, Title: long, WebsiteURL: long, Icons: []byte(`["` + long + `"]`)}.info(session.Modern, "", nil)
	var look map[string]string
	if err := json.Unmarshal(info.Look, &look); err != nil || len(look) != 2 {
		t.Errorf("%d bytes: %v", len(info.Look), err)
	}
	for _, said := range []string{info.Name, info.Version, look["name"], look["title"]} {
		if len(said) > maxSaid || !utf8.ValidString(said) {
			t.Errorf("%d bytes, valid: %v", len(said), utf8.ValidString(said))
		}
	}
}

func TestHandshake(t *testing.T) {
	const discovered = `{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"s","version":"2"}}}`
	for _, tc := range []struct {
		name     string
		known    Era
		server   func(s *script)
		revision string // "" if the handshake fails
		err      string
	}{
		{"modern", UnknownEra, func(s *script) {
			s.write(`{"id":%s,"result":%s}`, s.read().ID, discovered)
		}, session.Modern, ""},
		{"legacy that knows no discover", UnknownEra, func(s *script) {
			s.write(`{"id":%s,"error":{"code":0,"message":"?"}}`, s.read().ID)
			s.write(`{"id":%s,"result":%s}`, s.read().ID, initializeResult)
			s.read()
		}, "2025-06-18", ""},
		{"legacy that ignores what it does not know", UnknownEra, func(s *script) {
			s.read()
			s.write(`{"id":%s,"result":%s}`, s.read().ID, initializeResult)
			s.read()
		}, "2025-06-18", ""},
		{"modern, but slow", UnknownEra, func(s *script) {
			probe := s.read()
			s.read() // initialize, after the probe's patience
			s.write(`{"id":%s,"result":%s}`, probe.ID, discovered)
		}, session.Modern, ""},
		{"remembered as legacy", LegacyEra, func(s *script) {
			m := s.read()
			expect.Equal(t, m.Method, "initialize", "first message")
			s.write(`{"id":%s,"result":%s}`, m.ID, initializeResult)
			s.read()
		}, "2025-06-18", ""},
		{"ends at the probe", UnknownEra, func(s *script) { s.read(); s.out.Close() }, "", "ended at server/discover"},
		{"refuses", LegacyEra, func(s *script) {
			s.write(`{"id":%s,"error":{"code":-1,"message":"no licence"}}`, s.read().ID)
		}, "", "no licence"},
		{"speaks an early protocol", LegacyEra, func(s *script) {
			s.write(`{"id":%s,"result":{"protocolVersion":"2024-10-07"}}`, s.read().ID)
			s.read()
		}, session.Oldest, ""},
		{"names no protocol", LegacyEra, func(s *script) {
			s.write(`{"id":%s,"result":{"capabilities":{},"serverInfo":"s"}}`, s.read().ID)
			s.read()
		}, session.Oldest, ""},
		{"names a number", LegacyEra, func(s *script) {
			s.write(`{"id":%s,"result":{"protocolVersion":1.0}}`, s.read().ID)
			s.read()
		}, session.Oldest, ""},
		{"names 1 MB", LegacyEra, func(s *script) {
			s.write(`{"id":%s,"result":{"protocolVersion":"2025-%s"}}`, s.read().ID, strings.Repeat("0", 1<<20))
			s.read()
		}, session.Oldest, ""},
		{"speaks a later protocol", LegacyEra, func(s *script) {
			s.write(`{"id":%s,"result":{"protocolVersion":"2099-01-01"}}`, s.read().ID)
		}, "", `protocol "2099-01-01"`},
		{"mute", UnknownEra, func(s *script) { s.read(); s.read() }, "", "deadline"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, s := pair(t)
				ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
				defer cancel()
				var server sync.WaitGroup
				server.Go(func() { tc.server(s) })
				err := p.Handshake(ctx, Greeting{Known: tc.known, Version: "1", Capabilities: json.RawMessage(`{}`)})
				server.Wait()
				switch {
				case err != nil && len(err.Error()) > 1000:
					t.Errorf("an error of %d bytes", len(err.Error()))
				case tc.err != "" && (err == nil || !strings.Contains(err.Error(), tc.err)):
					t.Errorf("error %v, want one with %q", err, tc.err)
				case tc.err == "" && (err != nil || p.Info().ProtocolVersion != tc.revision):
					t.Errorf("revision %q, %v, want %q", p.Info().ProtocolVersion, err, tc.revision)
				}
				if notes := strings.Join(reported(p).Notes, ""); (tc.revision == session.Oldest) != strings.Contains(notes, session.Oldest) || len(notes) > 500 {
					t.Errorf("notes %.500q", notes)
				}
				if modern := p.Modern(); tc.err == "" && modern != (tc.revision == session.Modern) {
					t.Errorf("requests are stamped: %v", modern)
				}
			})
		})
	}
}

// A log message of another node goes to the client of the request that it names, and to no other.
func TestLogOfRequest(t *testing.T) {
	p, s := pair(t)
	alice, bob := clientOf("alice"), clientOf("bob")
	first := begin(t, p, s, alice)
	second := begin(t, p, s, bob)
	for _, id := range []int64{first, second + 1} {
		params := fmt.Appendf(nil, `{"data":"x","_meta":{"a":1,%q:%d}}`, session.MetaRequest, id)
		expect.OK(t, p.Receive(wire.Message{Method: "notifications/message", Params: params}, 0))
	}
	if got := strings.Join(alice.heard, " "); got != `message{"data":"x","_meta":{"a":1}}` || len(bob.heard) != 0 {
		t.Errorf("heard %s and %q", got, bob.heard)
	}
	s.out.Close()
}

// reported returns the violations of the peer's server.
func reported(p *Peer) (st status.Status) { p.Budget.Report(&st); return st }

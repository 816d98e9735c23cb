package supervisor

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/session"
)

// A script is the server's side of a peer under test.
type script struct {
	t   *testing.T
	in  *bufio.Reader // what the peer writes
	out *io.PipeWriter
}

// waits is a writer that can write nothing without waiting.
type waits struct{ io.Writer }

func (waits) TryWrite([]byte) (int, error) { return 0, nil }
func (waits) SetWriteDeadline(time.Time)   {}

// pair returns a peer and the server's side of it. The peer ends with the test.
func pair(t *testing.T) (*peer, *script) {
	fromPeer, toServer := io.Pipe()
	fromServer, out := io.Pipe()
	p := newPeer(host{
		server: "s",
		stray:  func(line []byte, why error) { t.Logf("stray: %.40q %v", line, why) },
		asked:  func(string) {},
		owner:  func(context.Context) session.Client { return nil },
	})
	link := newLines(waits{toServer}, time.Minute, p.closed)
	p.link = link
	var serving sync.WaitGroup
	serving.Go(func() {
		link.write()
		p.close(errors.New("nothing can be written"))
	})
	serving.Go(func() {
		p.read(fromServer)
		p.close(errors.New("it ended"))
	})
	t.Cleanup(func() {
		out.Close()
		fromPeer.Close()
		serving.Wait()
	})
	return p, &script{t, bufio.NewReader(fromPeer), out}
}

func (s *script) read() wire.Message {
	s.t.Helper()
	line, err := s.in.ReadBytes('\n')
	if err != nil {
		s.t.Errorf("the server's side: %v", err)
		return wire.Message{}
	}
	m, err := wire.Parse(line)
	if err != nil {
		s.t.Errorf("the peer wrote %q: %v", line, err)
	}
	return m
}

func (s *script) write(format string, args ...any) { fmt.Fprintf(s.out, format+"\n", args...) }

func TestCallPassesBytes(t *testing.T) {
	p, s := pair(t)
	const params, want = `{"b":12345678901234567890,"a":"é"}`, `{"z":1e400,"content":[{"type":"new"}],"a":1.0}`
	go func() {
		m := s.read()
		if string(m.Params) != params {
			t.Errorf("params arrived as %s", m.Params)
		}
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
	if n := p.strays.Load(); n != 4 {
		t.Errorf("%d lines counted as strays, want 4", n)
	}
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
	stop := p.Listen(func(m session.Message) { heard = append(heard, string(m.Params)) })
	go func() {
		for range 2 {
			m := s.read()
			for i := range 1000 {
				s.write(`{"method":"notifications/x","params":%d}`, i)
			}
			s.write(`{"id":%s,"result":{}}`, m.ID)
		}
	}()
	if _, err := p.Call(t.Context(), session.Request{Method: "m"}); err != nil {
		t.Fatal(err)
	}
	if len(heard) != 1000 || heard[999] != "999" {
		t.Errorf("%d notifications were heard before the result, want 1000 in order", len(heard))
	}
	stop()
	if _, err := p.Call(t.Context(), session.Request{Method: "m"}); err != nil || len(heard) != 1000 {
		t.Errorf("after stop: %d heard, %v", len(heard), err)
	}
}

func TestCallCancelled(t *testing.T) {
	p, s := pair(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	told := make(chan string, 1)
	go func() {
		call := s.read()
		cancel(errors.New("the user left"))
		m := s.read()
		told <- fmt.Sprint(m.Method, string(wire.Member(m.Params, "requestId")) == string(call.ID))
		s.write(`{"id":%s,"result":{}}`, call.ID) // too late, and harmless
	}()
	if _, err := p.Call(ctx, session.Request{Method: "m"}); err == nil || err.Error() != "the user left" {
		t.Errorf("error = %v", err)
	}
	if got := <-told; got != "notifications/cancelledtrue" {
		t.Errorf("the server was told %s", got)
	}
}

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
	p.refuse()
	if _, err := p.Call(t.Context(), session.Request{Method: "m"}); !errors.Is(err, session.ErrNotSent) {
		t.Errorf("a call on a draining session: %v, want ErrNotSent", err)
	}
	quiet := p.quiet()
	if isClosed(quiet) {
		t.Error("quiet with a call under way")
	}
	s.write(`{"id":%s,"result":{}}`, <-begun)
	if err := <-done; err != nil {
		t.Error(err)
	}
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
		p := newPeer(host{})
		if tc.meta != "" {
			p.meta = json.RawMessage(tc.meta)
		}
		params, token := p.stamp(tc.request, 7)
		if string(params) != tc.params || string(token) != tc.token {
			t.Errorf("%s: %s with token %s, want %s with %s", name, params, token, tc.params, tc.token)
		}
	}
}

const initializeResult = `{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"},"instructions":"hi"}`

func TestHandshake(t *testing.T) {
	const discovered = `{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"s","version":"2"}}}`
	for _, tc := range []struct {
		name     string
		known    era
		server   func(s *script)
		revision string // "" if the handshake fails
		err      string
	}{
		{"modern", unknownEra, func(s *script) {
			s.write(`{"id":%s,"result":%s}`, s.read().ID, discovered)
		}, session.Modern, ""},
		{"legacy that knows no discover", unknownEra, func(s *script) {
			s.write(`{"id":%s,"error":{"code":0,"message":"?"}}`, s.read().ID)
			s.write(`{"id":%s,"result":%s}`, s.read().ID, initializeResult)
			s.read()
		}, "2025-06-18", ""},
		{"legacy that ignores what it does not know", unknownEra, func(s *script) {
			s.read()
			s.write(`{"id":%s,"result":%s}`, s.read().ID, initializeResult)
			s.read()
		}, "2025-06-18", ""},
		{"modern, but slow", unknownEra, func(s *script) {
			probe := s.read()
			s.read() // initialize, after the probe's patience
			s.write(`{"id":%s,"result":%s}`, probe.ID, discovered)
		}, session.Modern, ""},
		{"remembered as legacy", legacyEra, func(s *script) {
			m := s.read()
			if m.Method != "initialize" {
				t.Errorf("first message %s", m.Method)
			}
			s.write(`{"id":%s,"result":%s}`, m.ID, initializeResult)
			s.read()
		}, "2025-06-18", ""},
		{"ends at the probe", unknownEra, func(s *script) { s.read(); s.out.Close() }, "", "ended at server/discover"},
		{"refuses", legacyEra, func(s *script) {
			s.write(`{"id":%s,"error":{"code":-1,"message":"no licence"}}`, s.read().ID)
		}, "", "no licence"},
		{"speaks another protocol", legacyEra, func(s *script) {
			s.write(`{"id":%s,"result":{"protocolVersion":"1.0"}}`, s.read().ID)
		}, "", `protocol "1.0"`},
		{"mute", unknownEra, func(s *script) { s.read(); s.read() }, "", "deadline"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, s := pair(t)
				ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
				defer cancel()
				var server sync.WaitGroup
				server.Go(func() { tc.server(s) })
				err := p.handshake(ctx, greeting{known: tc.known, version: "1", capabilities: json.RawMessage(`{}`)})
				server.Wait()
				switch {
				case tc.err != "" && (err == nil || !strings.Contains(err.Error(), tc.err)):
					t.Errorf("error %v, want one with %q", err, tc.err)
				case tc.err == "" && (err != nil || p.info.ProtocolVersion != tc.revision):
					t.Errorf("revision %q, %v, want %q", p.info.ProtocolVersion, err, tc.revision)
				}
				if modern := p.meta != nil; tc.err == "" && modern != (tc.revision == session.Modern) {
					t.Errorf("requests are stamped: %v", modern)
				}
			})
		})
	}
}

// A call ends with its context though its message is stuck half-way, and the
// message is finished once the server reads again.
func TestCallEndsWhileWriting(t *testing.T) {
	p, s := pair(t)
	ctx, cancel := context.WithCancel(t.Context())
	large := json.RawMessage(`{"x":"` + strings.Repeat("y", 3*writeChunk) + `"}`)
	go func() {
		s.in.Peek(1) // the message has begun
		cancel()
	}()
	if _, err := p.Call(ctx, session.Request{Method: "large", Params: large}); !errors.Is(err, context.Canceled) {
		t.Errorf("the call: %v", err)
	}
	// Another waits for its turn, and was not sent when its time is up.
	ctx, cancel = context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := p.Call(ctx, session.Request{Method: "m"}); !errors.Is(err, session.ErrNotSent) {
		t.Errorf("a call whose turn did not come: %v, want ErrNotSent", err)
	}
	if m := s.read(); m.Method != "large" || string(m.Params) != string(large) {
		t.Errorf("the large message arrived torn: %s, %d bytes", m.Method, len(m.Params))
	}
	if m := s.read(); m.Method != "notifications/cancelled" {
		t.Errorf("then came %s, want the cancellation", m.Method)
	}
}

func TestHistory(t *testing.T) {
	begin := time.Now()
	for name, steps := range map[string][]struct {
		at, ready time.Duration
		immediate bool
		loop      bool
	}{
		"a healthy server ends now and then": {
			{0, time.Hour, true, false}, {time.Minute + 1, time.Minute, true, false}, {3 * time.Minute, time.Minute, true, false},
		},
		"the first end after a short session": {{0, time.Second, true, false}, {time.Second, time.Second, false, false}},
		"five in a minute, healthy or not": {
			{0, 10 * time.Second, true, false}, {11 * time.Second, 10 * time.Second, true, false}, {22 * time.Second, 10 * time.Second, true, false},
			{33 * time.Second, 10 * time.Second, true, false}, {44 * time.Second, 10 * time.Second, true, true},
		},
		"five in a row that take long to fail": {
			{0, 0, false, false}, {2 * time.Minute, 0, false, false}, {4 * time.Minute, 0, false, false},
			{6 * time.Minute, 0, false, false}, {8 * time.Minute, 0, false, true},
			{13 * time.Minute, 0, false, true}, // one try, and failed again
			{18 * time.Minute, 20 * time.Second, true, false},
		},
	} {
		h := newHistory()
		for i, step := range steps {
			wait, ok := h.failed(begin.Add(step.at), step.ready)
			if ok == step.loop || ok && (wait == 0) != step.immediate || wait > 8*time.Second {
				t.Errorf("%s: failure %d: wait %v, %v", name, i+1, wait, ok)
			}
		}
	}
}

package peer

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

// nested returns JSON of so many levels.
func nested(levels int) string { return strings.Repeat("[", levels) + strings.Repeat("]", levels) }

// An answer that clients can't read fails its call at once, with an error that names the
// server, and is counted. What the router reads itself is kept.
func TestUnusableAnswers(t *testing.T) {
	deep := `{"structuredContent":` + nested(wire.MaxLevels) + `}`
	for _, tc := range []struct {
		method, answer string // of which %s is the id
		want           string // the result
		err            error
		counted        int64
	}{
		{"tools/call", `{"id":%s,"result":{"content":[]}}`, `{"content":[]}`, nil, 0},
		{"tools/call", "{\"id\":%s,\"result\":{\"text\":\"caf\xe9\"}}", "", wire.ErrNotUTF8, 1},
		{"resources/read", "{\"id\":%s,\"error\":{\"code\":1,\"message\":\"caf\xe9\"}}", "", wire.ErrNotUTF8, 1},
		{"prompts/get", `{"id":%s,"result":{"text":"\ud800"}}`, `{"text":"\ufffd"}`, nil, 0},
		{"tools/call", `{"id":%s,"result":` + deep + `}`, "", wire.ErrTooDeep, 1},
		{"tasks/get", `{"id":%s,"error":{"code":1,"message":"","data":` + nested(wire.MaxLevels) + `}}`, "", wire.ErrTooDeep, 1},
		{"tools/call", `{"id":%s,"result":` + nested(wire.MaxLevels) + `}`, nested(wire.MaxLevels), nil, 0},
		{"tools/call", `{"jsonrpc":"2.0","id":%s,"result":` + nested(20_000) + `}`, "", wire.ErrTooDeep, 1},
		{"tools/call", `{"result":` + nested(20_000) + `,"jsonrpc":"2.0","id":%s}`, "", wire.ErrTooDeep, 1},
		{"tools/list", `{"id":%s,"result":` + deep + `}`, deep, nil, 0},
		{"prompts/list", "{\"id\":%s,\"result\":{\"x\":\"caf\xe9\"}}", "{\"x\":\"caf\xe9\"}", nil, 0},
		{"initialize", "{\"id\":%s,\"result\":{\"x\":\"caf\xe9\"}}", "{\"x\":\"caf\ufffd\"}", nil, 0},
	} {
		p, s := pair(t)
		go func() { s.write(tc.answer, s.read().ID) }()
		raw, err := p.Call(t.Context(), session.Request{Method: tc.method})
		if string(raw) != tc.want || !errors.Is(err, tc.err) {
			t.Errorf("%s, %.60q: %.60q, %v", tc.method, tc.answer, raw, err)
		}
		if bad, ok := errors.AsType[*AnswerError](err); tc.err != nil && (!ok || bad.Server != "s" || !strings.Contains(err.Error(), `server "s"`)) {
			t.Errorf("%s: %v does not name the server", tc.method, err)
		}
		expect.Equal(t, reported(p).Unusable.Count, tc.counted, "%s, %.60q: counted", tc.method, tc.answer)
		expect.Equal(t, reported(p).StrayLines, 0, "%s, %.60q: lines of text", tc.method, tc.answer)
	}
}

// A broken answer fails its call, but only when no better one comes soon.
func TestBrokenAnswer(t *testing.T) {
	for name, broken := range map[string]string{
		"a control character": "{\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{\"text\":\"\x1b[0m\"}}",
		"the id at its end":   "{\"result\":{\"text\":\"\x00\"},\"jsonrpc\":\"2.0\",\"id\":%s}",
		"cut":                 `{"jsonrpc":"2.0","id":%s,"result":{"cut":`,
	} {
		for _, again := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, again %v", name, again), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					p, s := pair(t)
					go func() {
						id := s.read().ID
						s.write(broken, id)
						s.write(broken, id)
						if again {
							s.write(`{"id":%s,"result":{}}`, id)
						}
					}()
					began := time.Now()
					raw, err := p.Call(t.Context(), session.Request{Method: "tools/call"})
					if again && (err != nil || string(raw) != "{}" || reported(p).Unusable.Count != 0) {
						t.Errorf("%s, %v", raw, err)
					}
					if _, ok := errors.AsType[*AnswerError](err); !again && (!ok || time.Since(began) != lastChance || reported(p).Unusable.Count != 1) {
						t.Errorf("after %v: %v", time.Since(began), err)
					}
				})
			})
		}
	}
}

// A server that prints parts of messages while it starts is waited for.
func TestBrokenGreeting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, s := pair(t)
		done := make(chan struct{})
		go func() {
			defer close(done)
			id := s.read().ID
			s.write(`{"jsonrpc":"2.0","id":%s,"result":{"cut":`, id)
			time.Sleep(2 * lastChance)
			s.write(`{"id":%s,"result":{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"s","version":"1"}}}`, id)
			s.read() // notifications/initialized
		}()
		expect.OK(t, p.Handshake(t.Context(), Greeting{Known: LegacyEra, Capabilities: json.RawMessage("{}")}))
		<-done
	})
}

// What servers send unasked reaches no client if clients can't read it.
func TestUnusableMessages(t *testing.T) {
	p, s := pair(t)
	var heard []string
	p.host.Message = func(m session.Message) { heard = append(heard, string(m.Params)) }
	s.write("{\"method\":\"notifications/message\",\"params\":{\"data\":\"caf\xe9\"}}")
	s.write(`{"method":"notifications/message","params":{"data":%s}}`, nested(wire.MaxLevels))
	s.write(`{"method":"notifications/message","params":{"data":"\udc00"}}`)
	for _, params := range []string{"{\"message\":\"caf\xe9\"}", `{"requestedSchema":` + nested(wire.MaxLevels) + `}`} {
		s.write(`{"id":5,"method":"elicitation/create","params":%s}`, params)
		if m := s.read(); string(m.ID) != "5" || string(wire.Member(m.Error, "code")) != "-32600" {
			t.Errorf("%.40q is answered with %s", params, m.Error)
		}
	}
	s.write("{\"id\":\"\xff\",\"method\":\"ping\"}") // whose id can't be repeated
	s.write(`{"id":6,"method":"ping"}`)
	if m := s.read(); string(m.ID) != "6" {
		t.Errorf("the last ping is answered with %s", m.ID)
	}
	if len(heard) != 1 || heard[0] != `{"data":"\ufffd"}` {
		t.Errorf("heard %q", heard)
	}
	if got := reported(p).Unusable; got.Count != 5 || !strings.HasPrefix(got.Last, "with bytes that are not UTF-8") {
		t.Errorf("counted %+v", got)
	}
}

// A server that floods its session with notifications is read slowly, and few of them are
// passed on; its answers come all the same.
func TestFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, s := pair(t)
		heard, changes := 0, 0
		p.host.Message = func(m session.Message) {
			if m.Method == "notifications/message" {
				heard++
			} else {
				changes++
			}
		}
		const each = 50_000
		go func() {
			id := s.read().ID
			for range each {
				s.write(`{"method":"notifications/message","params":{"data":"x"}}`)
				s.write(`{"method":"notifications/tools/list_changed"}`)
			}
			s.write(`{"id":%s,"result":{}}`, id)
		}()
		began := time.Now()
		_, err := p.Call(t.Context(), session.Request{Method: "tools/call"})
		expect.OK(t, err)
		took := time.Since(began)
		if want := time.Duration((2*each - readBurst) / readRate * int(time.Second)); took < want/2 || took > 2*want {
			t.Errorf("the flood was read in %v, want about %v", took, want)
		}
		if most := passBurst + passRate*int(took/time.Second+1); heard > most || heard < passBurst/2 {
			t.Errorf("%d messages were passed on in %v", heard, took)
		}
		expect.Equal(t, changes, each, "changes of the list were heard")
		seen := reported(p).Flood
		if seen.Dropped != int64(each-heard) || seen.PerSecond < readRate/2 {
			t.Errorf("seen %+v", seen)
		}
	})
}

// Bytes count too: a few large notifications are a flood.
func TestFloodOfBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newBudget(nil)
		passed := 0
		for range 1000 {
			if f.admit("notifications/message", 1<<20) {
				passed++
			}
		}
		if passed > passBurst/(1<<20/heavy) {
			t.Errorf("%d MiB were passed on at once", passed)
		}
		if !f.admit(Cancelled, 100) {
			t.Error("a cancellation is dropped")
		}
	})
}

func TestReplyWithFault(t *testing.T) {
	m, err := wire.Parse([]byte("{\"id\":1,\"error\":{\"code\":1,\"message\":\"\xff\"}}"))
	expect.OK(t, err)
	_, err = Reply{Message: m}.Result()
	if _, theirs := errors.AsType[*session.Error](err); err == nil || theirs {
		t.Errorf("error %v", err)
	}
	if json.Valid([]byte(err.Error())) {
		t.Error(err)
	}
}

package peer

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/test/expect"
	"github.com/mcp-metarouter/metarouter/test/mcptest"
)

// ask sends a question of the server, and returns what it is answered with.
func (s *script) ask(method string) string {
	s.write(`{"id":"q","method":%q,"params":{}}`, method)
	m := s.read()
	return string(m.Result) + string(m.Error)
}

const (
	sampling    = "sampling/createMessage"
	elicitation = "elicitation/create"
	byClient    = `"by":"c"`
)

// A server may ask 60 questions a minute, over all its sessions. Further ones wait, for up to 10 seconds.
func TestQuestionsPerMinute(t *testing.T) {
	for _, tt := range []struct {
		set, want int
		wait      time.Duration // of the next question; 0 if it is refused
	}{{0, 60, time.Second}, {120, 120, time.Second / 2}, {6, 6, 10 * time.Second}, {5, 5, 0}, {3, 3, 0}} {
		synctest.Test(t, func(t *testing.T) {
			limits := NewLimits(func() int { return tt.set })
			var sessions []*script
			for range 2 {
				p, s := pair(t)
				p.host.Limits = limits
				begin(t, p, s, clientOf("c"))
				sessions = append(sessions, s)
			}
			for round := range 3 {
				begun := time.Now()
				for i := range tt.want {
					expect.Contains(t, sessions[i%2].ask(sampling), byClient, "minute %d, question %d", round+1, i+1)
				}
				want := byClient
				if tt.wait == 0 {
					want = fmt.Sprintf(`%d questions a minute, which \"questionsPerMinute\"`, tt.want)
				}
				expect.Contains(t, sessions[0].ask(sampling), want, "a question too many")
				expect.Equal(t, time.Since(begun).Round(time.Millisecond), tt.wait, "the wait")
				time.Sleep(2 * time.Minute)
			}
			if n, rule := limits.Refused(); n != 3 || !strings.Contains(rule, "questionsPerMinute") {
				t.Errorf("%d noted, the last because of %q", n, rule)
			}
		})
	}
}

// A client has 4 questions at a time; few more wait, and each of the rest is refused.
func TestQuestionsAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const atATime, most = 4, 16
		p, s := pair(t)
		c := clientOf("c")
		asked, next := 0, make(chan struct{})
		c.answer = func(ctx context.Context, method string) (json.RawMessage, error) {
			c.mu.Lock()
			asked++
			c.mu.Unlock()
			<-next
			return json.RawMessage(`{"action":"accept"}`), nil
		}
		begin(t, p, s, c)
		for i := range 1000 {
			s.write(`{"id":%d,"method":%q,"params":{}}`, i, elicitation)
		}
		for i := range 1000 - most {
			if m := s.read(); string(m.ID) != fmt.Sprint(i+most) || !strings.Contains(string(m.Error), "ask 4 questions at a time") {
				t.Fatalf("question %s was answered with %s %s", m.ID, m.Result, m.Error)
			}
		}
		for want := atATime; ; want++ {
			synctest.Wait()
			if asked != min(want, most) || p.Questions.answering > most {
				t.Fatalf("asked %d, want %d; %d goroutines", asked, want, p.Questions.answering)
			}
			if want == most+atATime {
				break
			}
			next <- struct{}{}
			s.read()
		}
	})
}

// Questions that are withdrawn while the client does not even take them still count.
func TestQuestionsWithdrawn(t *testing.T) {
	p, s := pair(t)
	c := clientOf("c")
	stuck := make(chan struct{})
	c.answer = func(context.Context, string) (json.RawMessage, error) { <-stuck; return nil, session.ErrClosed }
	begin(t, p, s, c)
	for i := range 200 {
		s.write(`{"id":%d,"method":%q,"params":{}}`, i, elicitation)
		s.write(`{"method":"notifications/cancelled","params":{"requestId":%d}}`, i)
	}
	for s.write(`{"id":"end","method":"ping"}`); string(s.read().ID) != `"end"`; { // the waiting ones end when they are withdrawn
	}
	p.Questions.mu.Lock()
	n := p.Questions.answering
	p.Questions.mu.Unlock()
	if n > maxQuestions {
		t.Errorf("%d questions are being answered", n)
	}
	close(stuck)
}

// Large questions do not pile up.
func TestQuestionBytes(t *testing.T) {
	p, s := pair(t)
	c := clientOf("c")
	c.asked = make(chan struct{}, maxQuestions)
	begin(t, p, s, c)
	large := json.RawMessage(`{"x":"` + strings.Repeat("x", maxQuestionBytes/2) + `"}`)
	for i := range 3 {
		p.Receive(wire.Message{ID: fmt.Append(nil, i), Method: sampling, Params: large}, 0)
	}
	if m := s.read(); string(m.ID) != "1" || !strings.Contains(string(m.Error), "16 MiB") {
		t.Errorf("question %s was answered with %s", m.ID, m.Error)
	}
}

// After 3 declined questions, a call's further ones are declined without asking. The
// next call may ask again.
func TestQuestionsDeclined(t *testing.T) {
	rejected := func() (json.RawMessage, error) { return nil, &session.Error{Code: -1, Message: "no"} }
	for name, tt := range map[string]struct {
		method string
		answer func() (json.RawMessage, error)
		asked  int // of 5 questions
		last   string
	}{
		"declined":    {elicitation, func() (json.RawMessage, error) { return json.RawMessage(`{"action":"decline"}`), nil }, 3, `{"action":"decline"}`},
		"cancelled":   {elicitation, func() (json.RawMessage, error) { return json.RawMessage(`{"action":"cancel"}`), nil }, 3, `{"action":"decline"}`},
		"rejected":    {sampling, rejected, 3, `"code":-1,"message":"User rejected sampling request`},
		"accepted":    {elicitation, func() (json.RawMessage, error) { return json.RawMessage(`{"action":"accept"}`), nil }, 5, `{"action":"accept"}`},
		"not offered": {sampling, func() (json.RawMessage, error) { return nil, &session.Error{Code: session.CodeMethodNotFound} }, 5, `-32601`},
	} {
		t.Run(name, func(t *testing.T) {
			p, s := pair(t)
			c := clientOf("c")
			asked := 0
			c.answer = func(context.Context, string) (json.RawMessage, error) { asked++; return tt.answer() }
			for call := 1; call <= 2; call++ {
				begin(t, p, s, c)
				last := ""
				for range 5 {
					last = s.ask(tt.method)
				}
				if asked != call*tt.asked || !strings.Contains(last, tt.last) {
					t.Errorf("after call %d, the client was asked %d times, and the last answer is %s", call, asked, last)
				}
			}
		})
	}
}

// A question that waits for its turn is not asked when its call has ended meanwhile.
func TestQuestionAfterItsCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, s := pair(t)
		c := clientOf("c")
		next := make(chan struct{})
		c.answer = func(context.Context, string) (json.RawMessage, error) {
			<-next
			return json.RawMessage(`{}`), nil
		}
		id := begin(t, p, s, c)
		for i := range 5 {
			s.write(`{"id":%d,"method":%q,"params":{}}`, i, sampling)
		}
		s.write(`{"id":%d,"result":{}}`, id)
		synctest.Wait()
		close(next)
		refused := 0
		for range 5 {
			if m := s.read(); strings.Contains(string(m.Error), "only while a request of that client is under way") {
				refused++
			}
		}
		expect.Equal(t, refused, 1, "questions refused")
	})
}

// Answers wait for a server that does not read, up to a bound.
func TestOutbox(t *testing.T) {
	sent, stuck := 0, make(chan struct{})
	p := New(Host{}, func(*Conn) Link { return linkOf(func(*Outgoing) { <-stuck; sent++ }) })
	for range maxOutbox / messageBytes {
		p.Receive(wire.Message{ID: json.RawMessage("1"), Method: "ping"}, 0)
	}
	expect.Contains(t, strings.Join(reported(p).Notes, ""), "does not read the answers")
	close(stuck)
	mcptest.WaitFor(t, "the answers", func() bool { p.outbox.mu.Lock(); defer p.outbox.mu.Unlock(); return len(p.outbox.waiting) == 0 })
	if p.Close(nil); p.outbox.bytes != 0 || sent < maxOutbox/messageBytes/2 {
		t.Errorf("%d answers were sent, and %d bytes are left", sent, p.outbox.bytes)
	}
	p.Wait()
}

// A cancelled call's exchange ends at once, whatever waits in the outbox, and large answers wait too.
func TestCancelAtOnce(t *testing.T) {
	for cancels, want := range map[bool]string{true: "", false: Cancelled} {
		synctest.Test(t, func(t *testing.T) {
			aborted, last, stuck := false, "", make(chan struct{})
			p := New(Host{}, func(*Conn) Link {
				return linkOf(func(o *Outgoing) {
					if o.ID != 0 {
						o.Abort, o.AbortCancels = func() { aborted = true }, cancels
						return
					}
					<-stuck
					last = o.Method
				})
			})
			for range 3 {
				p.respond(json.RawMessage("1"), make([]byte, maxOutbox), nil)
			}
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if _, err := p.Call(ctx, session.Request{Method: "tools/call"}); err == nil || !aborted {
				t.Errorf("%v, and the exchange goes on", err)
			}
			close(stuck)
			synctest.Wait()
			expect.Equal(t, last, want, "the last message")
			expect.Equal(t, len(reported(p).Notes), 0, "messages left out")
			p.Close(nil)
			p.Wait()
		})
	}
}

// Each ping gets its answer, at any pace, in order, and however many come at once.
func TestPings(t *testing.T) {
	for name, tt := range map[string]struct {
		n     int
		every time.Duration
	}{
		"each second": {20, time.Second}, "each 3 seconds": {40, 3 * time.Second}, "each 5 seconds, an hour": {720, 5 * time.Second},
		"10 a second": {600, 100 * time.Millisecond}, "a hundred at once": {100, 0}, "a flood": {5000, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, s := pair(t)
				var pings sync.WaitGroup
				defer pings.Wait()
				pings.Go(func() {
					for i := range tt.n {
						s.write(`{"id":"h-%d","method":"ping"}`, i)
						time.Sleep(tt.every)
					}
				})
				if tt.every == 0 {
					time.Sleep(time.Minute) // the server does not read for so long
				}
				for i := range tt.n {
					if m := s.read(); string(m.ID) != fmt.Sprintf(`"h-%d"`, i) || string(m.Result) != "{}" {
						t.Fatalf("ping %d: %s was answered with %s %s", i, m.ID, m.Result, m.Error)
					}
				}
				if n, rule := p.host.Limits.Refused(); n > 0 {
					t.Errorf("%d refused: %s", n, rule)
				}
			})
		})
	}
}

// Roots may be asked for in each call once. Other questions for roots have their answers 60 times a minute, the rest later.
func TestRoutineQuestions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, s := pair(t)
		c := clientOf("c")
		p.host.Owner = func() session.Client { return c }
		ask := func(n int, wait time.Duration) {
			t.Helper()
			begun := time.Now()
			for i := range n {
				expect.Contains(t, s.ask("roots/list"), byClient, "question %d", i+1)
			}
			expect.Equal(t, time.Since(begun).Round(time.Second), wait, "the time for the roots, %d times", n)
		}
		ask(60, 0)
		ask(20, 20*time.Second)
		if n, rule := p.host.Limits.Refused(); n != 20 || !strings.Contains(rule, "60 times a minute") {
			t.Errorf("%d noted: %s", n, rule)
		}
		for range 3 {
			begin(t, p, s, c)
		}
		ask(3, 0)
		ask(1, time.Second)
		c.answer = func(context.Context, string) (json.RawMessage, error) {
			t.Error("a client is asked a question that was withdrawn while it waited")
			return nil, session.ErrClosed
		}
		s.write(`{"id":"q","method":"roots/list"}`)
		s.write(`{"method":%q,"params":{"requestId":"q"}}`, Cancelled)
		time.Sleep(2 * time.Second)
	})
}

// The results of a modern server that ask for input obey the same rules.
func TestRoundLimits(t *testing.T) {
	questions := func(n int) string {
		var all []string
		for i := range n {
			all = append(all, fmt.Sprintf(`"%d":{"method":"elicitation/create","params":{}}`, i))
		}
		return `{"resultType":"input_required","requestState":"s","inputRequests":{` + strings.Join(all, ",") + `}}`
	}
	for name, tt := range map[string]struct {
		modern    bool
		perMinute int
		results   []int // questions in each
		asked     int
		err       string
	}{
		"few":                {false, 60, []int{4, 1}, 3, ""}, // declined, so the rest is not asked
		"too many at once":   {false, 60, []int{5}, 0, "4 questions at a time"},
		"too many a minute":  {false, 5, []int{2, 2, 2}, 3, "5 questions a minute"},
		"to a modern client": {true, 60, []int{5}, 0, "4 questions at a time"},
	} {
		t.Run(name, func(t *testing.T) {
			p, s := pair(t)
			p.agreed.meta = json.RawMessage(`{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}`)
			p.host.Limits = NewLimits(func() int { return tt.perMinute })
			c := clientOf("c")
			c.modern = tt.modern
			asked := 0
			c.answer = func(context.Context, string) (json.RawMessage, error) {
				asked++
				return json.RawMessage(`{"action":"cancel"}`), nil
			}
			go func() {
				var m wire.Message
				for _, n := range tt.results {
					m = s.read()
					s.write(`{"id":%s,"result":%s}`, m.ID, questions(n))
				}
				if tt.err == "" {
					m = s.read()
					expect.Equal(t, string(wire.Member(wire.Member(m.Params, "inputResponses"), "0")), `{"action":"decline"}`, "the question after 3 declined ones was answered with")
					s.write(`{"id":%s,"result":{}}`, m.ID)
				}
			}()
			_, err := p.Call(t.Context(), session.Request{Method: "tools/call", From: c})
			if asked != tt.asked || (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Errorf("asked %d times, %v", asked, err)
			}
		})
	}
}

package caller

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-metarouter/metarouter/cluster/internal/count"
	"github.com/mcp-metarouter/metarouter/cluster/internal/frame"
	"github.com/mcp-metarouter/metarouter/cluster/internal/transfer"
	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/signal"
)

// Notifications of a call reach its client once, in order, and before the result.
func TestNotify(t *testing.T) {
	run(t, func(t *testing.T, tr *trial) {
		tr.follow(func(f *frame.Frame) {
			if f.Header.Kind == frame.Start {
				for _, seq := range []uint64{1, 2, 2, 1, 4} {
					tr.send(f.Header.Call, frame.Header{Kind: frame.Notify, Seq: seq, Message: &frame.Notification{
						Method: "notifications/progress", Params: json.RawMessage(fmt.Sprintf(`{"progress":%d,"progressToken":"other"}`, seq)),
					}})
				}
				tr.send(f.Header.Call, frame.Header{Kind: frame.Notify, Seq: 5})
				tr.send(f.Header.Call, frame.Header{Kind: frame.Notify, Seq: 6, Message: &frame.Notification{Method: "x", Params: json.RawMessage(`[]`)}})
				tr.send(f.Header.Call, frame.Header{Kind: frame.Notify, Seq: 6, Message: &frame.Notification{Method: cancelled, Params: json.RawMessage(`{"requestId":1}`)}})
				tr.send(f.Header.Call, frame.Header{Kind: frame.Notify, Seq: 6, Message: &frame.Notification{Method: progress}})
				long := transfer.NewSource("params", []byte(`{"long":true}`))
				long.Send(tr.box, tr.gateway.Self(), frame.Header{Kind: frame.Notify, Call: f.Header.Call, Seq: 7, Message: &frame.Notification{Method: "notifications/message"}})
			}
			tr.serve(f)
		})
		r, from := echo("hello"), newHome()
		r.From, r.Meta = from, json.RawMessage(`{"progressToken":7}`)
		(<-tr.call(t.Context(), r)).expect(t, r, 0)
		want := []string{
			`gpu@box notifications/progress {"progress":1,"progressToken":7}`, `gpu@box notifications/progress {"progress":2,"progressToken":7}`,
			`gpu@box notifications/progress {"progress":4,"progressToken":7}`,
			`gpu@box notifications/message {"long":true}`,
		}
		if !slices.Equal(from.notified, want) {
			t.Errorf("got %q", from.notified)
		}
		if tr.dropped(count.Repeated) != 2 || tr.dropped(count.Unwanted) != 4 {
			t.Errorf("%d were dropped as repeated, %d as unwanted", tr.dropped(count.Repeated), tr.dropped(count.Unwanted))
		}
	})
}

// question has the node ask the client during a call.
func (tr *trial) question(call string, id int, method string) {
	tr.send(call, frame.Header{Kind: frame.Question, Seq: uint64(id), Message: &frame.Notification{
		ID: json.RawMessage(fmt.Sprint(id)), Method: method, Params: json.RawMessage(`{"q":1}`),
	}})
}

// asks has the node ask the client each question once, and end the call when n were answered.
func (tr *trial) asks(n int, ask func(call string), answer func(f *frame.Frame)) {
	seen := map[string]bool{}
	tr.follow(func(f *frame.Frame) {
		switch f.Header.Kind {
		case frame.Start:
			ask(f.Header.Call)
		case frame.Answer:
			answer(f)
			seen[string(f.Header.Message.ID)] = true
			if len(seen) == n {
				tr.answer(f.Header.Call)
			}
		case frame.Poll:
			tr.send(f.Header.Call, frame.Header{Kind: frame.State, Running: true})
		default:
			tr.serve(f)
		}
	})
}

// A question reaches the client once, although it and its answer are lost and sent again.
func TestQuestion(t *testing.T) {
	run(t, func(t *testing.T, tr *trial) {
		lost := 2
		tr.asks(1, func(call string) { tr.question(call, 1, "elicitation/create") }, func(*frame.Frame) {})
		serve := tr.script
		tr.follow(func(f *frame.Frame) {
			if f.Header.Kind == frame.Answer && lost > 0 {
				lost--
				tr.question(f.Header.Call, 1, "elicitation/create")
				return
			}
			if f.Header.Kind == frame.Answer && string(f.Payload) != `{"action":"accept"}` {
				t.Errorf("the answer is %s", f.Payload)
			}
			serve(f)
		})
		r, from := echo("hello"), newHome()
		from.answer = func(_ context.Context, m session.Message) (json.RawMessage, error) {
			if m.Method != "elicitation/create" || string(m.Params) != `{"q":1}` {
				t.Errorf("the question is %+v", m)
			}
			time.Sleep(time.Minute)
			return json.RawMessage(`{"action":"accept"}`), nil
		}
		r.From = from
		(<-tr.call(t.Context(), r)).expect(t, r, 2*time.Minute)
		if from.asked != 1 || len(tr.frames(frame.Answer)) != 3 {
			t.Errorf("the client was asked %d times, the node got %d answers", from.asked, len(tr.frames(frame.Answer)))
		}
	})
}

// Errors, methods that the client does not offer, and questions without a client are answered.
func TestQuestionErrors(t *testing.T) {
	for _, tt := range []struct {
		method string
		from   bool
		fault  func(f *frame.Fault) bool
	}{
		{"sampling/createMessage", true, func(f *frame.Fault) bool { return f.Own.Code == -1 }},
		{"elicitation/create", true, func(f *frame.Fault) bool { return f.Own == nil && f.Reason == "no person" }},
		{"roots/list", true, func(f *frame.Fault) bool { return f.Own.Code == session.CodeMethodNotFound }},
		{"tools/list", true, func(f *frame.Fault) bool { return f.Own.Code == session.CodeMethodNotFound }},
		{"sampling/createMessage", false, func(f *frame.Fault) bool { return f.Own.Code == session.CodeMethodNotFound }},
	} {
		run(t, func(t *testing.T, tr *trial) {
			tr.asks(1, func(call string) { tr.question(call, 1, tt.method) }, func(f *frame.Frame) {
				if f.Header.Error == nil || !tt.fault(f.Header.Error) {
					t.Errorf("%s: the answer is %+v", tt.method, f.Header.Error)
				}
			})
			r, from := echo("hello"), newHome()
			from.answer = func(_ context.Context, m session.Message) (json.RawMessage, error) {
				if m.Method == "elicitation/create" {
					return nil, errors.New("no person")
				}
				return nil, &session.Error{Code: -1, Message: "rejected"}
			}
			if tt.from {
				r.From = from
			}
			(<-tr.call(t.Context(), r)).expect(t, r, 0)
		})
	}
}

// A node that floods the client with questions has most refused.
func TestQuestionFlood(t *testing.T) {
	const n = 100
	run(t, func(t *testing.T, tr *trial) {
		refused := 0
		tr.asks(n, func(call string) {
			for i := range n {
				tr.question(call, i+1, "elicitation/create")
			}
		}, func(f *frame.Frame) {
			if f.Header.Error != nil {
				refused++
			}
		})
		r, from := echo("hello"), newHome()
		from.answer = func(context.Context, session.Message) (json.RawMessage, error) {
			time.Sleep(time.Second)
			return json.RawMessage(`{}`), nil
		}
		r.From = from
		(<-tr.call(t.Context(), r)).expect(t, r, 2*time.Second)
		if from.asked != maxQuestions || refused != n-maxQuestions {
			t.Errorf("the client was asked %d times, %d were refused", from.asked, refused)
		}
	})
}

// Questions end when their server withdraws them, and with the call.
func TestQuestionEnds(t *testing.T) {
	for _, withdraw := range []bool{true, false} {
		run(t, func(t *testing.T, tr *trial) {
			tr.asks(1, func(call string) {
				tr.question(call, 1, "elicitation/create")
				time.Sleep(time.Second)
				if withdraw {
					tr.send(call, frame.Header{Kind: frame.Cancel, Message: &frame.Notification{ID: json.RawMessage("1")}})
					time.Sleep(time.Second)
				}
				tr.answer(call)
			}, func(f *frame.Frame) { t.Error("it was answered") })
			r, from := echo("hello"), newHome()
			ended := make(chan time.Time, 1)
			from.answer = func(ctx context.Context, _ session.Message) (json.RawMessage, error) {
				<-ctx.Done()
				ended <- time.Now()
				return nil, ctx.Err()
			}
			r.From = from
			begin := time.Now()
			(<-tr.call(t.Context(), r)).expect(t, r, 2*time.Second)
			if took := (<-ended).Sub(begin); took != time.Second {
				t.Errorf("the question ended after %s", took)
			}
		})
	}
}

// A question with long params, and a long answer, go in parts.
func TestLongQuestion(t *testing.T) {
	run(t, func(t *testing.T, tr *trial) {
		tr.network.Limit(50 << 10)
		long := json.RawMessage(`{"text":"` + strings.Repeat("z", 200<<10) + `"}`)
		question, answers := transfer.NewSource("question-1", long), 0
		var sink *transfer.Sink
		tr.follow(func(f *frame.Frame) {
			h := &f.Header
			switch {
			case h.Kind == frame.Start:
				question.Send(tr.box, h.From, frame.Header{Kind: frame.Question, Call: h.Call, Message: &frame.Notification{ID: json.RawMessage("1"), Method: "sampling/createMessage"}})
				return
			case h.Kind == frame.Answer:
				sink, _ = transfer.NewSink(*h.Body, f.Payload, transfer.NewBudget(1<<20), time.Now())
				return
			case h.Kind == frame.Part && sink != nil:
				sink.Add(*h.Part, f.Payload, time.Now())
				if data, ok, err := sink.Bytes(); ok && string(data) == string(long) && err == nil {
					answers++
					tr.answer(h.Call)
				}
				return
			}
			tr.serve(f)
		})
		r, from := echo("hello"), newHome()
		from.answer = func(_ context.Context, m session.Message) (json.RawMessage, error) { return m.Params, nil }
		r.From = from
		(<-tr.call(t.Context(), r)).expect(t, r, 0)
		if answers != 1 {
			t.Errorf("got %d answers", answers)
		}
	})
}

// A server may ask a client that its node knows outside of calls.
func TestQuestionOutside(t *testing.T) {
	run(t, func(t *testing.T, tr *trial) {
		r, from := echo("hello"), newHome()
		from.answer = func(context.Context, session.Message) (json.RawMessage, error) {
			time.Sleep(time.Second)
			return json.RawMessage(`{"roots":[]}`), nil
		}
		r.From = from
		(<-tr.call(t.Context(), r)).expect(t, r, 0)
		ask := frame.Header{Kind: frame.Question, Server: "gpu", Home: tr.frames(frame.Offer)[0].Home,
			Message: &frame.Notification{ID: json.RawMessage("1"), Method: "sampling/createMessage"}}
		forged := ask
		forged.Call = "forged"
		tr.forge(forged, nil)
		stranger := ask
		stranger.Home = "unknown"
		tr.send("stranger", stranger)
		for range 2 {
			tr.send("outside", ask)
			time.Sleep(5 * time.Second)
		}
		if !tr.caller.Knows(tr.box.Self(), "outside") || tr.caller.Knows(frame.Address{Key: tr.box.Self().Key, Instance: "other"}, "outside") {
			t.Error("an exchange is known by its ID alone, or not at all")
		}
		answers := tr.frames(frame.Answer)
		if len(answers) != 2 || answers[0].Call != "outside" || answers[0].Body == nil || from.asked != 1 {
			t.Errorf("the client was asked %d times, the answers are %+v", from.asked, answers)
		}
		time.Sleep(keepAnswer)
		synctest.Wait()
		if tr.caller.Knows(tr.box.Self(), "outside") || tr.caller.Knows(tr.box.Self(), "forged") || tr.caller.asked != 0 {
			t.Error("the exchanges are still open")
		}
		from.answer = func(ctx context.Context, _ session.Message) (json.RawMessage, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		tr.send("again", ask)
		synctest.Wait()
		tr.caller.Release(from)
		synctest.Wait()
		if tr.caller.Knows(tr.box.Self(), "again") {
			t.Error("the question outlives its client")
		}
	})
}

// Messages that belong to no call reach their clients before later results.
func TestEvents(t *testing.T) {
	run(t, func(t *testing.T, tr *trial) {
		home := newHome()
		r := echo("hello")
		r.From = &client{home: home}
		(<-tr.call(t.Context(), r)).expect(t, r, 0)
		id := tr.frames(frame.Offer)[0].Home
		var listened []string
		stop := tr.caller.Session(tr.target, nil).Listen(func(m session.Message) { listened = append(listened, m.Method) })
		tr.follow(func(f *frame.Frame) {
			if f.Header.Kind == frame.Offer {
				event := frame.Header{Kind: frame.Event, Server: "gpu", Home: id, Message: &frame.Notification{Method: "a", Params: json.RawMessage(`{"n":1}`)}}
				tr.send("", event)
				tr.forge(event, nil)
				for _, method := range []string{cancelled, progress} {
					event.Message = &frame.Notification{Method: method, Params: json.RawMessage(`{"requestId":1,"progressToken":1}`)}
					tr.send("", event)
				}
				event.Home, event.Message = "", &frame.Notification{Method: "b"}
				tr.send("", event)
				event.Home = "unknown"
				tr.send("", event)
				event.Home, event.Server = "", "other"
				tr.send("", event)
			}
			tr.serve(f)
		})
		(<-tr.call(t.Context(), r)).expect(t, r, 0)
		if len(tr.heard) != 2 || tr.heard[0].owner != session.Client(home) || tr.heard[0].server != "gpu@box" || string(tr.heard[0].m.Params) != `{"n":1}` ||
			tr.heard[1].owner != nil || tr.heard[1].m.Method != "b" {
			t.Errorf("got %+v", tr.heard)
		}
		stop()
		if !slices.Equal(listened, []string{"a", "b"}) {
			t.Errorf("the listener got %q", listened)
		}
	})
}

// Notifications of a client, and its leaving, reach the nodes that know it.
func TestHomes(t *testing.T) {
	run(t, func(t *testing.T, tr *trial) {
		home, other := newHome(), newHome()
		tr.caller.SetLevel(t.Context(), "info")
		r := echo("hello")
		r.From = home
		(<-tr.call(t.Context(), r)).expect(t, r, 0)
		id := tr.frames(frame.Offer)[0].Home
		for _, c := range []session.Client{home, other} {
			tr.caller.Notify(c, "notifications/roots/list_changed", nil)
			tr.caller.Release(c)
			tr.caller.Release(c)
			tr.caller.Notify(c, "late", nil)
		}
		tr.caller.SetLevel(t.Context(), "info")
		tr.caller.SetLevel(t.Context(), "debug")
		if got := tr.kinds(); got != "level offer start tell release level" {
			t.Fatalf("the node got %s", got)
		}
		if h := tr.frames(frame.Tell)[0]; h.Home != id || h.Call == "" || h.Message.Method != "notifications/roots/list_changed" {
			t.Errorf("the node was told %+v", h)
		}
		if h := tr.frames(frame.Release)[0]; h.Home != id {
			t.Errorf("the node released %q, want %q", h.Home, id)
		}
		if h := tr.frames(frame.Level); h[0].Message.Method != "info" || h[1].Message.Method != "debug" {
			t.Errorf("the levels are %q and %q", h[0].Message.Method, h[1].Message.Method)
		}
	})
}

// subscriptions are a node that takes subscriptions. It returns the ID of the last one.
func (tr *trial) subscriptions(answer frame.Header) (last func() string) {
	var id string
	tr.follow(func(f *frame.Frame) {
		if f.Header.Kind == frame.Subscribe {
			id = f.Header.Call
			tr.send(id, answer)
		}
	})
	return func() string { synctest.Wait(); return id }
}

func TestSubscribe(t *testing.T) {
	run(t, func(t *testing.T, tr *trial) {
		id := tr.subscriptions(frame.Header{Kind: frame.State, Running: true})
		tr.drop(frame.Subscribe, 2)
		s := tr.caller.Session(tr.target, newHome())
		cancel, err := s.Subscribe(t.Context(), "file:///x")
		if err != nil {
			t.Fatal(err)
		}
		h := tr.frames(frame.Subscribe)[0]
		if h.URI != "file:///x" || h.Server != "gpu" || h.Home == "" || h.Offer.Client != "tester" || signal.IsClosed(s.Done()) {
			t.Errorf("the node got %+v", h)
		}
		cancel()
		if got := tr.kinds(); got != "subscribe unsubscribe" || tr.frames(frame.Unsubscribe)[0].Call != id() || !signal.IsClosed(s.Done()) {
			t.Errorf("the node got %s", got)
		}
		s = tr.caller.Session(tr.target, nil)
		if _, err = s.Subscribe(t.Context(), "file:///x"); err != nil {
			t.Fatal(err)
		}
		tr.send(id(), frame.Header{Kind: frame.State})
		<-s.Done()
		s = tr.caller.Session(tr.target, nil)
		if _, err = s.Subscribe(t.Context(), "file:///x"); err != nil {
			t.Fatal(err)
		}
		tr.lose()
		<-s.Done()
	})
}

func TestSubscribeErrors(t *testing.T) {
	run(t, func(t *testing.T, tr *trial) {
		tr.subscriptions(frame.Header{Kind: frame.State, Error: &frame.Fault{Own: &session.Error{Code: -32002, Message: "no such resource"}}})
		_, err := tr.caller.Session(tr.target, nil).Subscribe(t.Context(), "file:///x")
		if own, ok := errors.AsType[*session.Error](err); !ok || own.Code != -32002 {
			t.Errorf("got the error %v", err)
		}
		tr.follow(func(*frame.Frame) {})
		begin := time.Now()
		_, err = tr.caller.Session(tr.target, nil).Subscribe(t.Context(), "file:///x")
		if took := time.Since(begin); !errors.Is(err, session.ErrNotSent) || took > subscribeTime+askAgain {
			t.Errorf("got the error %v after %s", err, took)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err = tr.caller.Session(tr.target, nil).Subscribe(ctx, "file:///x"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got the error %v", err)
		}
		tr.lose()
		if _, err = tr.caller.Session(tr.target, nil).Subscribe(t.Context(), "file:///x"); !errors.Is(err, session.ErrNotSent) {
			t.Errorf("got the error %v", err)
		}
	})
}

// Servers and routers that are gone are forgotten.
func TestSweep(t *testing.T) {
	run(t, func(t *testing.T, tr *trial) {
		r := echo("hello")
		r.From = newHome()
		(<-tr.call(t.Context(), r)).expect(t, r, 0)
		close(tr.gone)
		tr.lose()
		time.Sleep(2 * sweepEvery)
		synctest.Wait()
		id, routers := tr.caller.homes.routers(r.From)
		if id == "" || len(routers) != 0 || len(tr.caller.events.routes) != 0 || len(tr.caller.homes.levelled) != 0 {
			t.Errorf("%v, %v and %v are remembered", routers, tr.caller.events.routes, tr.caller.homes.levelled)
		}
	})
}

// An inbox is bounded, also by the bytes that wait in all.
func TestInbox(t *testing.T) {
	tr := New(Options{})
	e := tr.newExchange("x", frame.Address{}, "", nil)
	f := &frame.Frame{Header: frame.Header{Kind: frame.Part}, Payload: make([]byte, 1<<20)}
	for range 10 {
		e.in.put(f)
	}
	if len(e.in.frames) != 3 || tr.waiting.Load() != int64(e.in.bytes) {
		t.Errorf("%d frames wait, %d bytes of %d", len(e.in.frames), tr.waiting.Load(), e.in.bytes)
	}
	e.in.close()
	tr.waiting.Add(maxWaitingAll)
	other := tr.newExchange("y", frame.Address{}, "", nil)
	if e.in.put(f) || other.in.put(f) || tr.waiting.Load() != maxWaitingAll {
		t.Error("a frame was added")
	}
}

package callee

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-metarouter/metarouter/cluster/internal/frame"
	"github.com/mcp-metarouter/metarouter/cluster/internal/linktest"
	"github.com/mcp-metarouter/metarouter/cluster/internal/transfer"
	"github.com/mcp-metarouter/metarouter/internal/clusternode"
	"github.com/mcp-metarouter/metarouter/internal/session"
)

// blocks has calls wait until they are cancelled.
func (h *host) blocks() {
	h.does(func(ctx context.Context, _ clusternode.Incoming) (json.RawMessage, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	})
}

// A node that is frozen between acceptance and start runs nothing when it goes on, by whichever
// clock the time has passed.
func TestFrozen(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		g := w.gateway()
		g.say(offer("1", false))
		accept := g.one(frame.Accept)
		w.node.Freeze()
		g.say(frame.Header{Kind: frame.Start, Call: "1", Nonce: accept.Header.Nonce})
		g.say(frame.Header{Kind: frame.Poll, Call: "1"})
		time.Sleep(10 * time.Second)
		w.node.Thaw()
		got := g.take()
		if len(w.host.ran) > 0 {
			t.Error("it ran")
		}
		if last := got[len(got)-1].Header; last.Kind != frame.State || last.Running || last.Error == nil || last.Error.Sent {
			t.Errorf("got %s", kinds(got))
		}
		w.empty()
	})
}

// A call that waits for its server while the process is frozen is not begun when it goes on, whether
// it or the pulse is the first to run. One that comes later is begun.
func TestFrozenBeforeServer(t *testing.T) {
	for _, tt := range []struct {
		name   string
		frozen time.Duration
		wait   time.Duration // until the call goes on
		begins bool
	}{
		{"never", 0, time.Minute, true},
		{"shortly", startTime - pulseTime, time.Minute, true},
		{"the call is the first to run", startTime + time.Second, 0, false},
		{"the pulse is the first to run", startTime + time.Second, pulseTime, false},
		{"long ago", startTime + time.Second, time.Minute, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				goOn := make(chan struct{})
				w.host.does(func(_ context.Context, in clusternode.Incoming) (json.RawMessage, error) {
					<-goOn
					return json.RawMessage(`{}`), session.GaveUp(in.Request.From)
				})
				g := w.gateway()
				g.say(offer("1", true))
				g.none()
				w.set(func() { w.skew = tt.frozen })
				time.Sleep(tt.wait)
				close(goOn)
				if got := g.one(frame.Result).Header.Error; (got == nil) != tt.begins || got != nil && got.Sent {
					t.Errorf("got %+v", got)
				}
				g.say(offer("2", true))
				if got := g.one(frame.Result).Header.Error; got != nil {
					t.Errorf("a later call got %+v", got)
				}
				for _, id := range []string{"1", "2"} {
					g.say(frame.Header{Kind: frame.Done, Call: id})
				}
				w.empty()
			})
		})
	}
}

// A start that comes late is refused by the monotonic clock, too, if a timer is late.
func TestLateTimer(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		g := w.gateway()
		g.say(offer("1", false))
		nonce := g.one(frame.Accept).Header.Nonce
		one := w.callee.find(&frame.Header{From: g.Self(), Call: "1"})
		one.mu.Lock()
		one.ready = one.ready.Add(-startTime - time.Millisecond)
		one.mu.Unlock()
		g.say(frame.Header{Kind: frame.Start, Call: "1", Nonce: nonce})
		g.one(frame.Refuse)
		if len(w.host.ran) > 0 {
			t.Error("it ran")
		}
		w.empty()
	})
}

// Several starts run a call once, whatever comes between them.
func TestStartTwice(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		finish := make(chan struct{})
		w.host.does(func(context.Context, clusternode.Incoming) (json.RawMessage, error) {
			<-finish
			return json.RawMessage(`{}`), nil
		})
		g := w.gateway()
		g.say(offer("1", false))
		start := frame.Header{Kind: frame.Start, Call: "1", Nonce: g.one(frame.Accept).Header.Nonce}
		for range 3 {
			g.say(start)
		}
		g.none()
		close(finish)
		g.one(frame.Result)
		g.say(start)
		g.say(offer("1", false))
		g.none()
		g.say(frame.Header{Kind: frame.Done, Call: "1"})
		g.say(start)
		g.say(offer("1", true))
		if state := g.one(frame.State); state.Header.Running || state.Header.Error != nil {
			t.Errorf("got %+v", state.Header)
		}
		if n := w.host.runs("1"); n != 1 {
			t.Errorf("it ran %d times", n)
		}
		w.empty()
	})
}

// An offer that was forgotten because no start came can't be started, and the node says so.
func TestOfferExpires(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		g := w.gateway()
		g.say(offer("1", false))
		nonce := g.one(frame.Accept).Header.Nonce
		time.Sleep(startTime + time.Millisecond)
		if f := g.one(frame.Refuse); f.Header.Error.Sent {
			t.Errorf("got %+v", f.Header.Error)
		}
		w.empty()
		g.say(frame.Header{Kind: frame.Start, Call: "1", Nonce: nonce})
		if state := g.one(frame.State); state.Header.Running || state.Header.Error == nil {
			t.Errorf("got %+v", state.Header)
		}
	})
}

// After a poll for a call without an offer, the late offer is refused.
func TestPollBeforeOffer(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		g := w.gateway()
		g.say(frame.Header{Kind: frame.Poll, Call: "1"})
		if state := g.one(frame.State); state.Header.Running || state.Header.Error != nil {
			t.Errorf("got %+v", state.Header)
		}
		g.say(offer("1", true))
		g.none()
		if len(w.host.ran) > 0 {
			t.Error("it ran")
		}
	})
}

// A gateway can't have more calls than the bound; when some end, there is room again. Others are
// served meanwhile.
func TestFlood(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.host.blocks()
		g, other := w.gateway(), w.gateway()
		for i := range maxCallsOf + 100 {
			g.say(offer(strconv.Itoa(i), i%2 == 0))
			if i%200 == 0 {
				synctest.Wait() // so that not more wait to be verified than may
			}
		}
		accepted, refused := 0, 0
		for _, f := range g.take() {
			switch f.Header.Kind {
			case frame.Accept:
				accepted++
			case frame.Refuse:
				refused++
				if f.Header.Error.Sent || f.Header.Error.Reason != errBusy.Error() {
					t.Fatalf("got %+v", f.Header.Error)
				}
			}
		}
		if accepted < maxCallsOf/3 || refused != 100 { // they are verified in any order
			t.Errorf("%d were accepted, %d refused", accepted, refused)
		}
		w.host.does(func(context.Context, clusternode.Incoming) (json.RawMessage, error) {
			return json.RawMessage(`{}`), nil
		})
		other.say(offer("x", true))
		other.one(frame.Result)
		time.Sleep(startTime + time.Millisecond) // half of the offers expire
		g.take()
		g.say(offer("new", true))
		g.one(frame.Result)
	})
}

// Offers that come faster than they can be verified are dropped, and leave nothing.
func TestUnverifiedFlood(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		g := w.gateway()
		forger := linktest.NewKey()
		for i := range 5000 {
			h := offer(strconv.Itoa(i), true)
			h.From, h.To, h.Time = g.Self(), w.node.Self(), time.Now().UnixMilli()
			data, err := frame.Encode(h, nil, forger)
			if err != nil {
				t.Fatal(err)
			}
			g.SendRaw(w.node.Self(), data)
		}
		synctest.Wait()
		if n := w.dropped("forged") + w.dropped("flooded"); n != 5000 || len(w.host.ran) > 0 {
			t.Errorf("%d were dropped, %d ran", n, len(w.host.ran))
		}
		g.say(offer("good", true))
		g.one(frame.Result)
		g.say(frame.Header{Kind: frame.Done, Call: "good"})
		w.empty()
	})
}

// Parts that come with forged offers do not take room from other parts for ever.
func TestPartsOfForgedOffers(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		g := w.gateway()
		forger := linktest.NewKey()
		send := func(h frame.Header, payload []byte) {
			h.From, h.To, h.Time = g.Self(), w.node.Self(), time.Now().UnixMilli()
			data, err := frame.Encode(h, payload, forger)
			if err != nil {
				t.Fatal(err)
			}
			g.SendRaw(w.node.Self(), data)
		}
		for i := range 500 {
			h := offer(strconv.Itoa(i), true)
			h.Body = &frame.Body{ID: "params", Size: 1 << 20, Sum: transfer.Sum(nil)}
			send(h, nil)
			for at := range 4 {
				send(frame.Header{Kind: frame.Part, Call: h.Call, Part: &frame.Range{Body: "params", Offset: int64(at)}}, make([]byte, 100_000))
			}
		}
		w.empty()
	})
}

// When a gateway is gone, its calls are cancelled, its subscriptions end, and its clients' sessions
// are released; calls of another gateway go on.
func TestGatewayLost(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		var ended []error
		w.host.does(func(ctx context.Context, in clusternode.Incoming) (json.RawMessage, error) {
			<-ctx.Done()
			w.set(func() { ended = append(ended, context.Cause(ctx)) })
			return nil, ctx.Err()
		})
		g, other := w.gateway(), w.gateway()
		for _, one := range []*gate{g, other} {
			h := offer("1", true)
			h.Home = "home"
			one.say(h)
			one.say(offer("2", false))
			one.say(frame.Header{Kind: frame.Subscribe, Call: "s", Home: "home", Server: "files", URI: "file:a", Offer: &frame.CallOffer{}})
		}
		synctest.Wait()
		if n := w.host.open.Load(); n != 2 {
			t.Fatalf("%d subscriptions", n)
		}
		close(w.lost(g.Self()))
		synctest.Wait()
		if len(ended) != 1 || !errors.Is(ended[0], errGatewayLost) || w.host.open.Load() != 1 || len(w.host.released) != 1 {
			t.Errorf("calls ended: %v, %d subscriptions are open, %d clients were released", ended, w.host.open.Load(), len(w.host.released))
		}
		w.callee.mu.Lock()
		if len(w.callee.gateways) != 1 || w.callee.total.calls != 2 || w.callee.total.subscriptions != 1 {
			t.Errorf("it has %d gateways, %+v", len(w.callee.gateways), w.callee.total)
		}
		w.callee.mu.Unlock()
		g.take()
		g.say(frame.Header{Kind: frame.Poll, Call: "1"})
		if state := g.one(frame.State); state.Header.Running || state.Header.Error != nil {
			t.Errorf("got %+v", state.Header)
		}
	})
}

// A cancelled call ends at each point, runs nothing more, and leaves nothing.
func TestCancel(t *testing.T) {
	for _, when := range []string{"at once", "accepted", "running", "ended", "before the start"} {
		t.Run(when, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				if when == "running" {
					w.host.blocks()
				}
				g := w.gateway()
				cancel := frame.Header{Kind: frame.Cancel, Call: "1"}
				g.say(offer("1", false))
				if when == "at once" {
					g.say(cancel)
				}
				got := g.take()
				nonce := got[0].Header.Nonce
				if when == "accepted" {
					g.say(cancel)
					synctest.Wait()
				}
				if when == "before the start" {
					g.say(cancel)
				}
				g.say(frame.Header{Kind: frame.Start, Call: "1", Nonce: nonce})
				synctest.Wait()
				g.say(cancel)
				synctest.Wait()
				if ran := when == "running" || when == "ended"; (w.host.runs("1") == 1) != ran {
					t.Errorf("it ran %d times", w.host.runs("1"))
				}
				w.empty()
			})
		})
	}
}

// The deadline of a call travels with it.
func TestDeadline(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.host.blocks()
		g := w.gateway()
		h := offer("1", true)
		h.Offer.Timeout = 5000
		g.say(h)
		g.none()
		time.Sleep(5 * time.Second)
		if f := g.one(frame.Result); f.Header.Error == nil || !f.Header.Error.Sent || f.Header.Error.Reason != errDeadline.Error() {
			t.Errorf("got %+v", f.Header.Error)
		}
	})
}

// A node that leaves refuses offers, and lets calls end. Those that do not end are cancelled.
func TestLeave(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		finish := make(chan struct{})
		w.host.does(func(ctx context.Context, in clusternode.Incoming) (json.RawMessage, error) {
			if in.ID == "slow" {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			<-finish
			return json.RawMessage(`{}`), nil
		})
		g := w.gateway()
		g.say(offer("quick", true))
		g.say(offer("slow", true))
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		left := make(chan struct{})
		go func() {
			defer close(left)
			w.callee.Leave(ctx)
		}()
		synctest.Wait()
		g.say(offer("late", true))
		g.one(frame.Refuse)
		close(finish)
		g.one(frame.Result)
		<-left
		w.leave()
		if f := g.one(frame.Result); f.Header.Call != "slow" || !f.Header.Error.Sent || f.Header.Error.Reason != errLeaving.Error() {
			t.Errorf("got %+v", f.Header.Error)
		}
	})
}

// A server's question reaches the client, again if it is not answered, and the first answer counts.
func TestQuestion(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.host.does(func(ctx context.Context, in clusternode.Incoming) (json.RawMessage, error) {
			if in.ID == "home" {
				return in.Request.From.Home().Ask(ctx, "files", session.Message{Method: "roots/list"})
			}
			// As the supervisor does, which has a context of the session with the server.
			return in.Request.From.Ask(context.Background(), "files", session.Message{ID: json.RawMessage(`"s-1"`), Method: "elicitation/create", Params: json.RawMessage(`{"message":"?"}`)})
		})
		g := w.gateway()
		ask := func(call string) *frame.Frame {
			h := offer(call, true)
			h.Home, h.Offer.Capabilities = "h", json.RawMessage(`{"elicitation":{},"roots":{}}`)
			g.say(h)
			return g.one(frame.Question)
		}
		reply := func(to *frame.Frame, text string) {
			g.say(frame.Header{Kind: frame.Answer, Call: to.Header.Call, Message: &frame.Notification{ID: to.Header.Message.ID},
				Body: &frame.Body{ID: "a", Size: int64(len(text)), Sum: transfer.Sum([]byte(text))}}, []byte(text)...)
		}
		q := ask("1")
		if q.Header.Seq != 1 || q.Header.Server != "files" || string(q.Header.Message.Params) != `{"message":"?"}` {
			t.Errorf("got %+v", q.Header.Message)
		}
		time.Sleep(repeatFirst)
		if again := g.one(frame.Question); again.Header.Seq != 1 || string(again.Header.Message.ID) != string(q.Header.Message.ID) {
			t.Errorf("got %+v again", again.Header.Message)
		}
		reply(q, `{"action":"accept"}`)
		reply(q, `{"action":"decline"}`)
		if f := g.one(frame.Result); string(f.Payload) != `{"action":"accept"}` {
			t.Errorf("got %s", f.Payload)
		}

		// An error is an answer, too; an answer that is no object is not passed on.
		q = ask("2")
		g.say(frame.Header{Kind: frame.Answer, Call: "2", Message: &frame.Notification{ID: q.Header.Message.ID}, Error: &frame.Fault{Own: &session.Error{Code: -1, Message: "no"}}})
		if f := g.one(frame.Result); f.Header.Error.Own == nil || f.Header.Error.Own.Code != -1 {
			t.Errorf("got %+v", f.Header.Error)
		}
		q = ask("3")
		reply(q, "{\n}")
		if f := g.one(frame.Result); f.Header.Error.Own == nil || f.Header.Error.Own.Code != session.CodeInternal {
			t.Errorf("got %+v", f.Header.Error)
		}

		// A question outside of calls belongs to the client's session.
		q = ask("home")
		if q.Header.Home != "h" || q.Header.Call == "home" {
			t.Errorf("got %+v", q.Header)
		}
		reply(q, `{"roots":[]}`)
		if f := g.one(frame.Result); string(f.Payload) != `{"roots":[]}` {
			t.Errorf("got %s", f.Payload)
		}

		// A cancelled call withdraws its question.
		q = ask("4")
		g.say(frame.Header{Kind: frame.Cancel, Call: "4"})
		if f := g.one(frame.Cancel); string(f.Header.Message.ID) != string(q.Header.Message.ID) {
			t.Errorf("got %+v", f.Header)
		}
		for _, call := range []string{"1", "2", "3", "home"} {
			g.say(frame.Header{Kind: frame.Done, Call: call})
		}
		w.empty()
	})
}

// A client is not asked without the capability, nor more at a time than the bound.
func TestQuestionBounds(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		refused := make(chan error, 100)
		w.host.does(func(ctx context.Context, in clusternode.Incoming) (json.RawMessage, error) {
			if _, err := in.Request.From.Ask(ctx, "files", session.Message{Method: "sampling/createMessage"}); err == nil {
				t.Error("it was asked")
			}
			for range maxOpen + 5 {
				go func() {
					_, err := in.Request.From.Ask(ctx, "files", session.Message{Method: "roots/list"})
					refused <- err
				}()
			}
			<-ctx.Done()
			return nil, ctx.Err()
		})
		g := w.gateway()
		h := offer("1", true)
		h.Offer.Capabilities = json.RawMessage(`{"roots":{}}`)
		g.say(h)
		if got := g.take(); len(got) != maxOpen {
			t.Errorf("%d questions were sent", len(got))
		}
		if len(refused) != 5 {
			t.Errorf("%d were refused", len(refused))
		}
		g.say(frame.Header{Kind: frame.Cancel, Call: "1"})
		synctest.Wait()
		if len(refused) != maxOpen+5 {
			t.Errorf("%d have ended", len(refused))
		}
	})
}

// Notifications come in order and before the result; a flood of them is bounded and blocks no goroutine.
func TestNotifications(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		const sent = 100_000
		w.host.does(func(_ context.Context, in clusternode.Incoming) (json.RawMessage, error) {
			for i := range sent {
				in.Request.From.Notify("files", session.Message{Method: "notifications/progress", Params: json.RawMessage(strconv.Itoa(i))})
			}
			in.Request.From.Notify("files", session.Message{Method: "notifications/message", Params: json.RawMessage(`"` + strings.Repeat("<", 50<<10) + `"`)})
			return json.RawMessage(`{}`), nil
		})
		g := w.gateway()
		g.say(offer("1", true))
		got := g.take()
		if len(got) < 1000 || got[len(got)-1].Header.Kind != frame.Result {
			t.Fatalf("got %d frames, the last one %s", len(got), got[len(got)-1].Header.Kind)
		}
		last := -1
		for i, f := range got[:len(got)-1] {
			n, err := strconv.Atoi(string(f.Header.Message.Params))
			if f.Header.Kind != frame.Notify || f.Header.Seq != uint64(i+1) || f.Header.Body == nil && (err != nil || n <= last) {
				t.Fatalf("frame %d is %+v", i, f.Header)
			}
			last = n
		}
		if dropped := w.dropped("notifications"); int(dropped)+len(got)-1 != sent+1 {
			t.Errorf("%d came, %d were dropped", len(got)-1, dropped)
		}
	})
}

// Params and results that are longer than a frame arrive whole, also if frames are lost.
func TestLarge(t *testing.T) {
	for _, lost := range []int{0, 3} {
		t.Run(strconv.Itoa(lost), func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.host.does(func(_ context.Context, in clusternode.Incoming) (json.RawMessage, error) {
					return in.Request.Params, nil
				})
				g := w.gateway()
				n := 0
				w.net.Drop(func(_, _ *linktest.Node, f *frame.Frame) bool {
					if f.Header.Kind == frame.Part {
						n++
						return lost > 0 && n%lost == 0
					}
					return false
				})
				params := []byte(`{"name":"read","arguments":"` + strings.Repeat("x", 5<<20) + `"}`)
				source := transfer.NewSource("b", params)
				if err := source.Send(g.Node, w.node.Self(), offer("1", true)); err != nil {
					t.Fatal(err)
				}
				var sink *transfer.Sink
				for range 20000 {
					for _, f := range g.take() {
						switch f.Header.Kind {
						case frame.Pull:
							source.Answer(g.Node, w.node.Self(), "1", *f.Header.Part)
						case frame.Result:
							if sink == nil {
								var err error
								if sink, err = transfer.NewSink(*f.Header.Body, f.Payload, transfer.NewBudget(transfer.MaxReceived), time.Now()); err != nil {
									t.Fatal(err)
								}
							}
						case frame.Part:
							if sink != nil {
								sink.Add(*f.Header.Part, f.Payload, time.Now())
							}
						}
					}
					if sink == nil {
						time.Sleep(10 * time.Millisecond)
						continue
					}
					pull, _, err := sink.Next(time.Now())
					if err != nil {
						t.Fatal(err)
					}
					if pull.Length > 0 {
						g.say(frame.Header{Kind: frame.Pull, Call: "1", Part: &pull})
						continue
					}
					data, ok, err := sink.Bytes()
					if err != nil {
						t.Fatal(err)
					}
					if ok {
						if string(data) != string(params) {
							t.Error("the result is not what was sent")
						}
						g.say(frame.Header{Kind: frame.Done, Call: "1"})
						w.empty()
						return
					}
					time.Sleep(100 * time.Millisecond)
				}
				t.Error("no result")
			})
		})
	}
}

// Params that never come whole are given up, and the params of a node together are bounded.
func TestGiantParams(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		g := w.gateway()
		h := offer("", false)
		refused := 0
		for i := range 10 {
			h.Call = strconv.Itoa(i)
			h.Body = &frame.Body{ID: "b", Size: 30 << 20, Sum: transfer.Sum(nil)}
			g.say(h)
		}
		for _, f := range g.take() {
			if f.Header.Kind == frame.Refuse {
				refused++
			}
		}
		if refused != 10-maxParamsOf/(30<<20) {
			t.Errorf("%d were refused", refused)
		}
		for range 100 { // parts that do not follow, or belong to no body
			g.say(frame.Header{Kind: frame.Part, Call: "0", Part: &frame.Range{Body: "b", Offset: 20 << 20}}, make([]byte, 100<<10)...)
			g.say(frame.Header{Kind: frame.Part, Call: "none", Part: &frame.Range{Body: "b"}}, make([]byte, 100<<10)...)
		}
		time.Sleep(time.Minute)
		g.take()
		w.empty()
	})
}

// Updates of resources reach the gateways that have subscribed, log messages the one that alone
// has used the server lately and wants them, and messages of a client's own session its gateway.
func TestEvents(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		g, other := w.gateway(), w.gateway()
		subscribe := frame.Header{Kind: frame.Subscribe, Call: "s", Home: "h", Server: "files", URI: "file:a", Offer: &frame.CallOffer{}}
		g.say(subscribe)
		if state := g.one(frame.State); !state.Header.Running {
			t.Fatalf("got %+v", state.Header)
		}
		g.say(subscribe) // its answer was lost
		g.one(frame.State)
		if n := w.host.open.Load(); n != 1 {
			t.Errorf("%d subscriptions", n)
		}
		changed := session.Message{Method: "notifications/resources/updated", Params: json.RawMessage(`{"uri":"file:a"}`)}
		w.host.hear("files", nil, changed)
		if f := g.one(frame.Event); f.Header.Server != "files" || f.Header.Message.Method != changed.Method || string(f.Header.Message.Params) != string(changed.Params) || f.Header.Home != "" {
			t.Errorf("got %+v", f.Header)
		}
		other.none()
		home := w.host.last.Request.From.Home()
		w.host.hear("files", home, changed)
		if f := g.one(frame.Event); f.Header.Home != "h" {
			t.Errorf("got %+v", f.Header)
		}
		theirs := subscribe
		theirs.Home = "theirs"
		other.say(theirs)
		other.one(frame.State)
		w.host.hear("files", home, changed)
		g.one(frame.Event)
		other.none()
		w.set(func() { w.shared["files"] = false })
		w.host.hear("files", nil, changed)
		w.host.hear("files", home, changed)
		w.set(func() { w.shared["files"] = true })
		for _, m := range []struct {
			server string
			owner  session.Client
			m      session.Message
		}{
			{"mail", nil, changed},
			{"files", &client{}, changed},
			{"files", nil, session.Message{Method: changed.Method, Params: json.RawMessage(`{"uri":"file:b"}`)}},
			{"files", nil, session.Message{Method: "notifications/tools/list_changed"}},
			{"files", nil, session.Message{Method: "notifications/message", Params: json.RawMessage(`{"level":"error"}`)}},
		} {
			w.host.hear(m.server, m.owner, m.m)
		}
		g.none()
		other.none()

		// Log messages.
		log := func(level string) {
			w.host.hear("files", nil, session.Message{Method: "notifications/message", Params: json.RawMessage(`{"level":"` + level + `"}`)})
		}
		g.say(frame.Header{Kind: frame.Level, Message: &frame.Notification{Method: "warning"}})
		log("error")
		g.none() // it has not called the server
		g.say(offer("1", true))
		g.one(frame.Result)
		log("error")
		g.one(frame.Event)
		log("info")
		g.none()
		w.host.hear("files", nil, session.Message{Method: "notifications/tasks/status"})
		g.one(frame.Event)
		other.say(frame.Header{Kind: frame.Level, Message: &frame.Notification{Method: "debug"}})
		other.say(offer("1", true))
		other.one(frame.Result)
		w.host.hear("files", nil, session.Message{Method: "notifications/tasks/status"})
		log("error")
		g.none() // it may be about a call of the other one
		other.none()
		if got := fmt.Sprint(w.host.levels); got != "[warning debug]" {
			t.Errorf("levels: %s", got)
		}

		// Clients that leave.
		g.say(frame.Header{Kind: frame.Tell, Call: "t", Home: "h", Message: &frame.Notification{Method: "notifications/roots/list_changed"}})
		g.say(frame.Header{Kind: frame.Tell, Call: "t", Home: "h", Message: &frame.Notification{Method: "notifications/roots/list_changed"}})
		g.say(frame.Header{Kind: frame.Release, Home: "h"})
		if f := g.one(frame.State); f.Header.Running || f.Header.Call != "s" {
			t.Errorf("got %+v", f.Header)
		}
		if len(w.host.told) != 1 || len(w.host.released) != 1 || w.host.released[0] != home || w.host.open.Load() != 1 {
			t.Errorf("told %v, released %v, open %d", w.host.told, w.host.released, w.host.open.Load())
		}
		late := offer("2", true)
		late.Home = "h"
		g.say(late)
		g.one(frame.Refuse)
	})
}

// Subscriptions end with the server's session, by the gateway, and when the server is not shared
// any more. One that fails says why.
func TestSubscriptions(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		g := w.gateway()
		subscribe := func(id, server, uri string) *frame.Frame {
			g.say(frame.Header{Kind: frame.Subscribe, Call: id, Server: server, URI: uri, Offer: &frame.CallOffer{}})
			return g.one(frame.State)
		}
		if f := subscribe("1", "files", "none"); f.Header.Running || f.Header.Error.Own.Code != -32002 {
			t.Errorf("got %+v", f.Header)
		}
		if f := subscribe("2", "mail", "a"); f.Header.Running || f.Header.Error.Sent {
			t.Errorf("got %+v", f.Header)
		}
		subscribe("3", "files", "a")
		close(w.host.ends["3"])
		if f := g.one(frame.State); f.Header.Running {
			t.Errorf("got %+v", f.Header)
		}
		subscribe("4", "files", "a")
		g.say(frame.Header{Kind: frame.Unsubscribe, Call: "4"})
		g.one(frame.State)
		subscribe("5", "files", "a")
		w.set(func() { w.shared["files"] = false })
		time.Sleep(2 * time.Second)
		g.one(frame.State)
		w.empty()
	})
}

// 100,000 updates of resources are bounded, and equal ones that wait are one.
func TestUpdates(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		g := w.gateway()
		for i := range 100 {
			g.say(frame.Header{Kind: frame.Subscribe, Call: strconv.Itoa(i), Server: "files", URI: strconv.Itoa(i), Offer: &frame.CallOffer{}})
		}
		if got := g.take(); len(got) != 100 {
			t.Fatalf("got %d", len(got))
		}
		for i := range 100_000 {
			w.host.hear("files", nil, session.Message{Method: "notifications/resources/updated", Params: json.RawMessage(`{"uri":"` + strconv.Itoa(i%100) + `"}`)})
		}
		seen := make(map[string]bool)
		for _, f := range g.take() {
			seen[string(f.Header.Message.Params)] = true
		}
		if len(seen) != 100 || w.dropped("events") > 0 {
			t.Errorf("updates of %d resources came, %d were dropped", len(seen), w.dropped("events"))
		}
	})
}

// The results that are kept are bounded: in all, where the oldest go first, and those of a node,
// which do not displace another node's.
func TestKeptResults(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		g, other := w.gateway(), w.gateway()
		other.say(offer("0", true))
		other.one(frame.Result)
		large := json.RawMessage(`"` + strings.Repeat("x", 30<<20) + `"`)
		w.host.does(func(context.Context, clusternode.Incoming) (json.RawMessage, error) { return large, nil })
		w.net.Drop(func(_, _ *linktest.Node, f *frame.Frame) bool { return f.Header.Kind == frame.Part })
		for i := range 6 {
			g.say(offer(strconv.Itoa(i), true))
			g.one(frame.Result)
		}
		for i := range 6 {
			g.say(frame.Header{Kind: frame.Poll, Call: strconv.Itoa(i)})
			if kept := g.take()[0].Header.Kind == frame.Result; kept != (i >= 2) {
				t.Errorf("result %d is kept: %v", i, kept)
			}
		}
		other.say(frame.Header{Kind: frame.Poll, Call: "0"})
		other.one(frame.Result)
		time.Sleep(2 * keepTime)
		w.empty()
	})
}

// A result says whether the client has a session of its own with the server.
func TestResultOfOwnSession(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		g := w.gateway()
		w.shared["kept"] = true
		for i, tt := range []struct {
			server, home string
			want         bool
		}{{"kept", "home", true}, {"kept", "", false}, {"files", "home", false}} {
			h := offer(strconv.Itoa(i), true)
			h.Server, h.Home = tt.server, tt.home
			g.say(h)
			if got := g.one(frame.Result).Header.Result; got == nil || got.Kept != tt.want {
				t.Errorf("%+v: %+v", tt, got)
			}
		}
	})
}

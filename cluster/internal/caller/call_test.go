package caller

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-metarouter/metarouter/cluster/internal/count"
	"github.com/mcp-metarouter/metarouter/cluster/internal/frame"
	"github.com/mcp-metarouter/metarouter/cluster/internal/linktest"
	"github.com/mcp-metarouter/metarouter/cluster/internal/transfer"
	"github.com/mcp-metarouter/metarouter/internal/session"
)

// expect fails the test unless the call ended with its params as the result.
func (o outcome) expect(t *testing.T, r session.Request, within time.Duration) {
	t.Helper()
	if o.err != nil || string(o.result) != string(r.Params) {
		t.Fatalf("got %d bytes, the error %v", len(o.result), o.err)
	}
	if o.took > within+time.Millisecond {
		t.Errorf("it took %s, want at most %s", o.took, within)
	}
	if !o.ran.Verified || len(o.ran.Nodes) != 1 || o.ran.Nodes[0] != "box" {
		t.Errorf("it ran at %+v", o.ran)
	}
}

// fails fails the test unless the call ended with the error.
func (o outcome) fails(t *testing.T, want error, within time.Duration) {
	t.Helper()
	if !errors.Is(o.err, want) || errors.Is(o.err, session.ErrNotSent) != (want == session.ErrNotSent) {
		t.Fatalf("got the result %s, the error %v", o.result, o.err)
	}
	if o.took > within+time.Millisecond {
		t.Errorf("it took %s, want at most %s", o.took, within)
	}
}

func TestCall(t *testing.T) {
	run(t, func(t *testing.T, tr *trial) {
		r := echo("hello")
		(<-tr.call(t.Context(), r)).expect(t, r, 0)
		if got := tr.kinds(); got != "offer start" {
			t.Errorf("the node got %s", got)
		}
		r.Repeatable = true
		(<-tr.call(t.Context(), r)).expect(t, r, 0)
		if got := tr.kinds(); got != "offer start offer" {
			t.Errorf("the node got %s", got)
		}
		if o := <-tr.call(t.Context(), session.Request{Method: "tasks/list"}); string(o.result) != "{}" || o.err != nil {
			t.Errorf("got %s, %v", o.result, o.err)
		}
	})
}

// A node hears which results have arrived: with the next call, after a second, and when there are
// many.
func TestEnded(t *testing.T) {
	run(t, func(t *testing.T, tr *trial) {
		ids := map[string]int{}
		r := echo("hello")
		r.Repeatable = true
		for range 3 {
			(<-tr.call(t.Context(), r)).expect(t, r, 0)
		}
		if h := tr.frames(frame.Offer); len(h[0].Ended) != 0 || len(h[1].Ended) != 1 || h[1].Ended[0] != h[0].Call || h[2].Ended[0] != h[1].Call {
			t.Errorf("the offers have %q, %q and %q", h[0].Ended, h[1].Ended, h[2].Ended)
		}
		time.Sleep(endedDelay)
		if h := tr.frames(frame.Done); len(h) != 1 || len(h[0].Ended) != 1 || h[0].Ended[0] != tr.frames(frame.Offer)[2].Call || h[0].Call != "" {
			t.Errorf("the node got %+v", h)
		}
		time.Sleep(time.Minute)
		tr.network.Delay(time.Millisecond)
		var all []<-chan outcome
		for range 2*maxEnded + 1 {
			all = append(all, tr.call(t.Context(), r))
		}
		for _, ended := range all {
			(<-ended).expect(t, r, time.Minute)
		}
		time.Sleep(time.Minute)
		if done := tr.frames(frame.Done); len(done) != 4 || len(done[2].Ended) != maxEnded {
			t.Errorf("%d frames said that results have arrived", len(done))
		}
		for _, kind := range []frame.Kind{frame.Offer, frame.Done} {
			for _, h := range tr.frames(kind) {
				for _, id := range h.Ended {
					ids[id]++
				}
			}
		}
		if len(ids) != 2*maxEnded+4 {
			t.Errorf("%d calls ended", len(ids))
		}
	})
}

// An offer describes the request and its client.
func TestOffer(t *testing.T) {
	run(t, func(t *testing.T, tr *trial) {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		r, home := echo("hello"), newHome()
		r.From, r.Meta, r.Origin = home, json.RawMessage(`{"progressToken":7}`), &session.Origin{Profile: "work", Principal: "abc"}
		for range 2 {
			(<-tr.call(ctx, r)).expect(t, r, 0)
		}
		first, second := tr.frames(frame.Offer)[0], tr.frames(frame.Offer)[1]
		if first.Home == "" || first.Home != second.Home || first.Call == second.Call {
			t.Errorf("the homes are %q and %q, the calls %q and %q", first.Home, second.Home, first.Call, second.Call)
		}
		o := first.Offer
		if first.Server != "gpu" || o.Tool != "echo" || o.Client != "tester" || o.Timeout != 5000 || string(o.Meta) != `{"progressToken":7}` ||
			o.Origin.Profile != "work" || o.Origin.Principal != "abc" || !strings.Contains(string(o.Capabilities), "sampling") {
			t.Errorf("the offer is %+v of %s", o, first.Server)
		}
	})
}

// Long params, results and errors go in parts.
func TestLong(t *testing.T) {
	run(t, func(t *testing.T, tr *trial) {
		tr.network.Limit(100 << 10)
		for _, size := range []int{90 << 10, 110 << 10, 1 << 20, 5 << 20} {
			r := echo(strings.Repeat("x", size))
			(<-tr.call(t.Context(), r)).expect(t, r, 0)
		}
		long := &session.Error{Code: -5, Message: strings.Repeat("y", 300<<10)}
		tr.follow(func(f *frame.Frame) {
			if f.Header.Kind == frame.Start {
				fault, source := longError(long, "error")
				tr.sources[f.Header.Call] = source
				source.Send(tr.box, tr.gateway.Self(), frame.Header{Kind: frame.Result, Call: f.Header.Call, Error: fault, Result: tr.resultOf(f.Header.Call)})
				return
			}
			tr.serve(f)
		})
		o := <-tr.call(t.Context(), echo("hello"))
		if own, ok := errors.AsType[*session.Error](o.err); !ok || own.Code != -5 || own.Message != long.Message {
			t.Errorf("got the error %.100v", o.err)
		}
	})
}

// Whichever frame is lost, a call ends as it must.
func TestLost(t *testing.T) {
	for _, tt := range []struct {
		kind       frame.Kind
		n          int
		repeatable bool
		want       error // nil: the result
		within     time.Duration
	}{
		{frame.Offer, 1, false, session.ErrNotSent, acceptTime},
		{frame.Offer, 1, true, session.ErrNotSent, pollEvery},
		{frame.Accept, 1, false, session.ErrNotSent, acceptTime},
		{frame.Start, 1, false, session.ErrClosed, pollEvery},
		{frame.Result, 1, false, nil, pollEvery},
		{frame.Result, 1, true, nil, pollEvery},
		{frame.Result, 3, true, nil, 3 * pollEvery},
	} {
		run(t, func(t *testing.T, tr *trial) {
			r := echo("hello")
			r.Repeatable = tt.repeatable
			tr.drop(tt.kind, tt.n)
			o := <-tr.call(t.Context(), r)
			if tt.want == nil {
				o.expect(t, r, tt.within)
			} else {
				o.fails(t, tt.want, tt.within)
			}
			if tt.want == session.ErrNotSent && !tt.repeatable && !strings.HasSuffix(tr.kinds(), "cancel") {
				t.Errorf("the node got %s, and not that the call is cancelled", tr.kinds())
			}
		})
	}
}

// Lost parts of a result are sent again.
func TestLostParts(t *testing.T) {
	run(t, func(t *testing.T, tr *trial) {
		tr.network.Limit(100 << 10)
		n := 0
		tr.network.Drop(func(from, _ *linktest.Node, f *frame.Frame) bool {
			n++
			return f.Header.Kind == frame.Part && from == tr.box && n%7 == 3
		})
		r := echo(strings.Repeat("x", 3<<20))
		(<-tr.call(t.Context(), r)).expect(t, r, 30*time.Second)
	})
}

// If the start is lost, and the node says that it never ran the call, another place may run it.
func TestExpired(t *testing.T) {
	run(t, func(t *testing.T, tr *trial) {
		tr.drop(frame.Start, 1)
		tr.follow(func(f *frame.Frame) {
			if f.Header.Kind == frame.Poll {
				tr.send(f.Header.Call, frame.Header{Kind: frame.State, Error: &frame.Fault{Reason: "never started"}})
				return
			}
			tr.serve(f)
		})
		(<-tr.call(t.Context(), echo("hello"))).fails(t, session.ErrNotSent, pollEvery)
	})
}

// A node that refuses an offer does not run it.
func TestRefused(t *testing.T) {
	run(t, func(t *testing.T, tr *trial) {
		tr.follow(func(f *frame.Frame) {
			tr.send(f.Header.Call, frame.Header{Kind: frame.Refuse, Error: &frame.Fault{Reason: "busy\nnow"}})
		})
		o := <-tr.call(t.Context(), echo("hello"))
		o.fails(t, session.ErrNotSent, 0)
		if !strings.HasSuffix(o.err.Error(), `node "box": busy now`) {
			t.Errorf("the error is %q", o.err)
		}
	})
}

// A node that is frozen before it accepts gets no start, also when it wakes up.
func TestFrozenBeforeAccept(t *testing.T) {
	run(t, func(t *testing.T, tr *trial) {
		tr.box.Freeze()
		(<-tr.call(t.Context(), echo("hello"))).fails(t, session.ErrNotSent, acceptTime)
		tr.box.Thaw()
		time.Sleep(time.Minute)
		if got := tr.kinds(); got != "offer cancel" {
			t.Errorf("the node got %s", got)
		}
	})
}

// A call on a node that is lost ends at once; if it was started, it may have run.
func TestNodeLost(t *testing.T) {
	for _, started := range []bool{false, true} {
		run(t, func(t *testing.T, tr *trial) {
			tr.follow(func(f *frame.Frame) {
				if f.Header.Kind == frame.Offer && started {
					tr.serve(f)
				}
			})
			ended := tr.call(t.Context(), echo("hello"))
			time.Sleep(acceptTime / 2)
			tr.lose()
			want := session.ErrNotSent
			if started {
				want = session.ErrClosed
			}
			(<-ended).fails(t, want, acceptTime/2)
			(<-tr.call(t.Context(), echo("hello"))).fails(t, session.ErrNotSent, 0)
		})
	}
}

// The server is gone for calls to come; those under way get their results.
func TestGone(t *testing.T) {
	run(t, func(t *testing.T, tr *trial) {
		r := echo("hello")
		tr.network.Delay(100 * time.Millisecond)
		ended := tr.call(t.Context(), r)
		synctest.Wait()
		close(tr.gone)
		(<-ended).expect(t, r, time.Second)
		(<-tr.call(t.Context(), r)).fails(t, session.ErrNotSent, 0)
	})
}

// Frames of the same node under another instance do not belong to the call.
func TestOtherInstance(t *testing.T) {
	run(t, func(t *testing.T, tr *trial) {
		again := tr.network.Join(tr.box.Key())
		tr.follow(func(f *frame.Frame) {
			if f.Header.Kind == frame.Offer {
				again.Send(tr.gateway.Self(), frame.Header{Kind: frame.Accept, Call: f.Header.Call, Nonce: "x"}, nil)
			}
		})
		(<-tr.call(t.Context(), echo("hello"))).fails(t, session.ErrNotSent, acceptTime)
		if tr.dropped(count.Unwanted) != 1 {
			t.Error("the frame was not dropped")
		}
	})
}

// forge sends a frame in the name of the node that another key has signed.
func (tr *trial) forge(h frame.Header, payload []byte) {
	h.From, h.To, h.Time = tr.box.Self(), tr.gateway.Self(), time.Now().UnixMilli()
	data, err := frame.Encode(h, payload, linktest.NewKey())
	if err != nil {
		tr.t.Fatal(err)
	}
	tr.box.SendRaw(tr.gateway.Self(), data)
}

// Forged frames of every kind change nothing.
func TestForged(t *testing.T) {
	run(t, func(t *testing.T, tr *trial) {
		tr.follow(func(f *frame.Frame) {
			h := &f.Header
			if h.Kind == frame.Offer || h.Kind == frame.Start {
				fake := transfer.NewSource("result", []byte(`{"forged":true}`))
				body := fake.Body()
				for _, one := range []frame.Header{
					{Kind: frame.Accept, Nonce: "x"}, {Kind: frame.Refuse, Error: &frame.Fault{}}, {Kind: frame.State},
					{Kind: frame.Result, Error: &frame.Fault{Sent: true}, Result: tr.resultOf(h.Call)},
				} {
					one.Call = h.Call
					tr.forge(one, nil)
				}
				tr.forge(frame.Header{Kind: frame.Result, Call: h.Call, Body: &body, Result: tr.resultOf(h.Call)}, []byte(`{"forged":true}`))
			}
			tr.serve(f)
		})
		r := echo("hello")
		(<-tr.call(t.Context(), r)).expect(t, r, 0)
		if tr.dropped(count.Signature) != 10 {
			t.Errorf("%d forged frames were dropped", tr.dropped(count.Signature))
		}
	})
}

// A result that the node has signed for another request is refused.
func TestOtherResult(t *testing.T) {
	for name, change := range map[string]func(r *frame.CallResult){
		"server": func(r *frame.CallResult) { r.Server = "other" }, "method": func(r *frame.CallResult) { r.Method = "prompts/get" },
		"tool": func(r *frame.CallResult) { r.Tool = "delete" }, "arguments": func(r *frame.CallResult) { r.Arguments = transfer.Sum([]byte("x")) },
	} {
		run(t, func(t *testing.T, tr *trial) {
			tr.follow(func(f *frame.Frame) {
				if f.Header.Kind == frame.Start {
					r := tr.resultOf(f.Header.Call)
					change(r)
					transfer.NewSource("result", []byte("{}")).Send(tr.box, tr.gateway.Self(), frame.Header{Kind: frame.Result, Call: f.Header.Call, Result: r})
					return
				}
				tr.serve(f)
			})
			o := <-tr.call(t.Context(), echo("hello"))
			o.fails(t, session.ErrClosed, 0)
			if o.ran.Verified {
				t.Errorf("a result with another %s counts as verified", name)
			}
		})
	}
}

// A result must be an object on one line: clients get it as it is.
func TestInvalidResult(t *testing.T) {
	for _, result := range []string{"", "[]", "{}\n{}", "{\n}", "{\"\xff\"}"} {
		run(t, func(t *testing.T, tr *trial) {
			tr.follow(func(f *frame.Frame) {
				if f.Header.Kind == frame.Start {
					transfer.NewSource("result", []byte(result)).Send(tr.box, tr.gateway.Self(),
						frame.Header{Kind: frame.Result, Call: f.Header.Call, Result: tr.resultOf(f.Header.Call)})
					return
				}
				tr.serve(f)
			})
			(<-tr.call(t.Context(), echo("hello"))).fails(t, session.ErrClosed, 0)
		})
	}
}

// Late, repeated and unknown frames are dropped, and cost no memory.
func TestFlood(t *testing.T) {
	run(t, func(t *testing.T, tr *trial) {
		tr.follow(func(f *frame.Frame) {
			if f.Header.Kind == frame.Start {
				for range 10 * maxWaiting {
					tr.send(f.Header.Call, frame.Header{Kind: frame.Accept, Nonce: "late"})
				}
			}
			tr.serve(f)
		})
		for range 1000 {
			tr.send("unknown", frame.Header{Kind: frame.Result})
			tr.send("", frame.Header{Kind: frame.Question, Home: "unknown"})
			tr.send("", frame.Header{Kind: frame.Event, Server: "gpu"})
		}
		r := echo("hello")
		(<-tr.call(t.Context(), r)).expect(t, r, 2*pollEvery)
		if got := tr.dropped(count.Unwanted) + tr.dropped(count.Overflow); got < 3000 {
			t.Errorf("%d frames were dropped", got)
		}
	})
}

// A gateway without connection offers nothing; if it loses the connection during a call, it asks for
// the result when it has it again.
func TestDisconnected(t *testing.T) {
	run(t, func(t *testing.T, tr *trial) {
		tr.gateway.Disconnect()
		(<-tr.call(t.Context(), echo("hello"))).fails(t, session.ErrNotSent, reconnectTime)
		tr.gateway.Connect()
		tr.follow(func(f *frame.Frame) {
			if f.Header.Kind == frame.Start {
				tr.gateway.Disconnect()
			}
			tr.serve(f)
		})
		r := echo("hello")
		ended := tr.call(t.Context(), r)
		time.Sleep(pollEvery + time.Second)
		tr.gateway.Connect()
		(<-ended).expect(t, r, 2*pollEvery)
	})
}

// An offer waits for a connection that comes back soon, and no longer than its caller or its node.
func TestOfferWaits(t *testing.T) {
	left := errors.New("the client has left")
	for _, tt := range []struct {
		name string
		then func(tr *trial, cancel context.CancelCauseFunc)
		want error
	}{
		{"the connection is back", func(tr *trial, _ context.CancelCauseFunc) { tr.gateway.Connect() }, nil},
		{"the client leaves", func(_ *trial, cancel context.CancelCauseFunc) { cancel(left) }, left},
		{"the node is lost", func(tr *trial, _ context.CancelCauseFunc) { tr.lose() }, session.ErrNotSent},
	} {
		t.Run(tt.name, func(t *testing.T) {
			run(t, func(t *testing.T, tr *trial) {
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				tr.gateway.Disconnect()
				r := echo("hello")
				ended := tr.call(ctx, r)
				time.Sleep(reconnectTime / 2)
				tt.then(tr, cancel)
				if o := <-ended; tt.want == nil {
					o.expect(t, r, reconnectTime/2+reconnectPause)
				} else {
					o.fails(t, tt.want, reconnectTime/2)
				}
			})
		})
	}
}

// The connection breaks between the offer and the start: the start is not sent later.
func TestStartNotSent(t *testing.T) {
	run(t, func(t *testing.T, tr *trial) {
		tr.gateway.Receive(func(f *frame.Frame) {
			if f.Header.Kind == frame.Accept {
				tr.gateway.Disconnect()
			}
			tr.caller.Receive(f)
		})
		(<-tr.call(t.Context(), echo("hello"))).fails(t, session.ErrNotSent, 0)
	})
}

// A node that is alive and says nothing of a call that was sent does not hold it for ever.
func TestSilence(t *testing.T) {
	run(t, func(t *testing.T, tr *trial) {
		tr.follow(func(f *frame.Frame) {
			if f.Header.Kind == frame.Offer {
				tr.serve(f)
			}
		})
		(<-tr.call(t.Context(), echo("hello"))).fails(t, session.ErrClosed, silenceTime)
	})
}

// A call that runs is waited for as long as the node says so.
func TestRunning(t *testing.T) {
	run(t, func(t *testing.T, tr *trial) {
		begin := time.Now()
		tr.follow(func(f *frame.Frame) {
			switch {
			case f.Header.Kind == frame.Start:
			case f.Header.Kind == frame.Poll && time.Since(begin) < time.Hour:
				tr.send(f.Header.Call, frame.Header{Kind: frame.State, Running: true})
			case f.Header.Kind == frame.Poll:
				tr.answer(f.Header.Call)
			default:
				tr.serve(f)
			}
		})
		r := echo("hello")
		(<-tr.call(t.Context(), r)).expect(t, r, time.Hour+pollEvery)
	})
}

// A client that waits no longer cancels the call.
func TestCancel(t *testing.T) {
	run(t, func(t *testing.T, tr *trial) {
		tr.follow(func(f *frame.Frame) {
			if f.Header.Kind == frame.Offer {
				tr.serve(f)
			}
		})
		why := errors.New("the client has left")
		ctx, cancel := context.WithCancelCause(t.Context())
		ended := tr.call(ctx, echo("hello"))
		synctest.Wait()
		cancel(why)
		if o := <-ended; o.err != why {
			t.Errorf("got the error %v", o.err)
		}
		if got := tr.kinds(); got != "offer start cancel" {
			t.Errorf("the node got %s", got)
		}
	})
}

// When the caller ends, calls under way do.
func TestEnd(t *testing.T) {
	run(t, func(t *testing.T, tr *trial) {
		tr.follow(func(f *frame.Frame) {
			if f.Header.Kind == frame.Offer {
				tr.serve(f)
			}
		})
		ended := tr.call(t.Context(), echo("hello"))
		synctest.Wait()
		tr.end()
		(<-ended).fails(t, session.ErrClosed, 0)
	})
}

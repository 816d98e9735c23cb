package execute

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/status"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

const fine = `{"content":[{"type":"text","text":"fine"}]}`

// No more calls than allowed are under way; the others follow in their order, and
// one that is given up while it waits makes room for nobody.
func TestMaxConcurrent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var under, most atomic.Int32
		var mu sync.Mutex
		var order []string
		s := &stub{policy: Policy{MaxConcurrent: 2}, call: func(_ context.Context, params json.RawMessage) (json.RawMessage, error) {
			most.Store(max(most.Load(), under.Add(1)))
			defer under.Add(-1)
			mu.Lock()
			order = append(order, string(params))
			mu.Unlock()
			time.Sleep(time.Second)
			return json.RawMessage(fine), nil
		}}
		sel := newExecutor(registry.New(), s)
		ctx, giveUp := context.WithCancelCause(t.Context())
		gone := errors.New("gone")
		var calls sync.WaitGroup
		for i := range 7 {
			ctx := ctx
			if i != 4 {
				ctx = t.Context()
			}
			calls.Go(func() {
				r, err := sel.Execute(ctx, Call{Tool: tool(object), Arguments: fmt.Appendf(nil, `{"n":%d}`, i)})
				if i == 4 {
					expect.Equal(t, err, gone, "given up: %s", r.JSON)
				} else if err != nil || textOf(r) != "fine" {
					t.Errorf("call %d: %s, %v", i, r.JSON, err)
				}
			})
			synctest.Wait()
		}
		giveUp(gone)
		began := time.Now()
		calls.Wait()
		if took := time.Since(began); took != 3*time.Second || most.Load() != 2 {
			t.Errorf("%d at once, in %v", most.Load(), took)
		}
		if got := strings.Join(order[2:], ""); len(order) != 6 || strings.Index(got, `"n":2`) > strings.Index(got, `"n":6`) || strings.Contains(got, `"n":4`) {
			t.Errorf("order %q", order)
		}
	})
}

// occupied returns an executor for a server that takes one call at a time, while this many are under way or wait.
func occupied(t *testing.T, calls int) (sel *Executor, finish func()) {
	t.Helper()
	finished := make(chan struct{})
	sel = newExecutor(registry.New(), &stub{policy: Policy{MaxConcurrent: 1}, call: func(context.Context, json.RawMessage) (json.RawMessage, error) {
		<-finished
		return json.RawMessage(fine), nil
	}})
	var running sync.WaitGroup
	for range calls {
		running.Go(func() { sel.Execute(t.Context(), Call{Tool: tool(object)}) })
	}
	synctest.Wait()
	return sel, func() { close(finished); running.Wait() }
}

func TestBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sel, finish := occupied(t, 1+maxQueued)
		r, err := sel.Execute(t.Context(), Call{Tool: tool(object)})
		if text := textOf(r); err != nil || !r.IsError || !strings.Contains(text, `"srv" is busy (calls under way: 1, waiting: 1000)`) || !strings.Contains(text, "maxConcurrent") {
			t.Errorf("%s, %v", text, err)
		}
		finish()
		if r, err := sel.Execute(t.Context(), Call{Tool: tool(object)}); err != nil || r.IsError {
			t.Errorf("afterwards: %s, %v", r.JSON, err)
		}
	})
}

// A call does not wait for other calls without end.
func TestWaitEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sel, finish := occupied(t, 1)
		began := time.Now()
		r, err := sel.Execute(t.Context(), Call{Tool: tool(object)})
		if text := textOf(r); err != nil || !r.IsError || time.Since(began) != maxWait || !strings.Contains(text, `"srv" is busy: the call waited 10m0s`) {
			t.Errorf("after %v: %s, %v", time.Since(began), text, err)
		}
		finish()
		if g := sel.limiters.of("srv"); g.active != 0 || g.waiting != 0 {
			t.Errorf("%d calls are under way at the end, %d wait", g.active, g.waiting)
		}
	})
}

// asks is a client that takes its time to answer.
type asks struct {
	session.Client
	answer chan struct{}
}

func (a asks) Ask(context.Context, string, session.Message) (json.RawMessage, error) {
	<-a.answer
	return json.RawMessage(`{}`), nil
}

// A call whose client is asked for something keeps nobody waiting.
func TestAskedCallMakesRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &asking{}
		s.policy.MaxConcurrent = 1
		sel := newExecutor(registry.New(), s)
		client := asks{answer: make(chan struct{})}
		var first sync.WaitGroup
		first.Go(func() {
			if r, err := sel.Execute(t.Context(), Call{Tool: tool(object), From: client}); err != nil || r.IsError {
				t.Errorf("%s, %v", r.JSON, err)
			}
		})
		synctest.Wait()
		if r, err := sel.Execute(t.Context(), Call{Tool: tool(object)}); err != nil || r.IsError {
			t.Errorf("%s, %v", r.JSON, err)
		}
		close(client.answer)
		first.Wait()
		expect.Equal(t, sel.limiters.of("srv").active, 0, "calls are under way at the end")
	})
}

// asking is a server that asks its client, if there is one.
type asking struct{ stub }

func (s *asking) Session(context.Context, string, session.Client) (session.Session, error) {
	return askingSession{}, nil
}

type askingSession struct{ session.Session }

func (askingSession) Info() session.Info { return session.Info{} }
func (askingSession) Call(ctx context.Context, r session.Request) (json.RawMessage, error) {
	if r.From != nil {
		if _, err := r.From.Ask(ctx, "srv", session.Message{Method: "elicitation/create"}); err != nil {
			return nil, err
		}
	}
	return json.RawMessage(fine), nil
}

// A server that answers no call is left alone for a while, then tried with one.
func TestBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sent, heals := 0, false
		s := &stub{policy: Policy{Timeout: time.Second}, call: func(ctx context.Context, _ json.RawMessage) (json.RawMessage, error) {
			if sent++; heals {
				return json.RawMessage(fine), nil
			}
			<-ctx.Done()
			return nil, context.Cause(ctx)
		}}
		sel := newExecutor(registry.New(), s)
		call := func() string {
			r, err := sel.Execute(t.Context(), Call{Tool: tool(object)})
			if err != nil {
				t.Error(err)
			}
			return textOf(r)
		}
		for range breakAfter {
			expect.Contains(t, call(), "did not answer original within 1s", "late")
		}
		began := time.Now()
		if text := call(); !strings.Contains(text, `"srv" did not answer the last 5 calls, so none is sent to it for the next 10s`) || time.Since(began) != 0 || sent != breakAfter {
			t.Errorf("%d sent, after %v: %s", sent, time.Since(began), text)
		}
		time.Sleep(breakTime)
		call() // the one that is let through fails
		expect.Contains(t, call(), "the last 6 calls", "after one more")
		heals = true
		time.Sleep(breakTime)
		for range 2 {
			expect.Equal(t, call(), "fine", "healed")
		}
	})
}

// What a client gives up, a server refuses or a tool reports does not speak
// against the server.
func TestBreakerCountsOnlySilence(t *testing.T) {
	answers := []error{&session.Error{Code: -32602, Message: "no"}, context.Canceled, session.ErrNotSent, nil}
	s := &stub{call: func(context.Context, json.RawMessage) (json.RawMessage, error) {
		err := answers[0]
		answers = append(answers[1:], err)
		return json.RawMessage(`{"content":[],"isError":true}`), err
	}}
	sel := newExecutor(registry.New(), s)
	for range 40 {
		sel.Execute(t.Context(), Call{Tool: tool(object)})
	}
	expect.Equal(t, sel.limiters.of("srv").unanswered, 0, "calls count as unanswered")
}

// A call that may have taken effect is made again only where that does no harm, or
// the configuration says so.
func TestRetry(t *testing.T) {
	for _, tc := range []struct {
		name     string
		retry    Retry
		readOnly bool
		want     int // times sent
	}{
		{"a reading tool", IfHarmless, true, 3},
		{"a writing tool", IfHarmless, false, 1},
		{"a tool whose hints are doubted", IfHarmless, true, 1},
		{"never", NeverRetry, true, 1},
		{"always", AlwaysRetry, false, 3},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var sent []time.Time
				s := &stub{policy: Policy{Retry: tc.retry, Timeout: time.Minute}, call: func(context.Context, json.RawMessage) (json.RawMessage, error) {
					sent = append(sent, time.Now())
					return nil, fmt.Errorf("%w: it was killed", session.ErrClosed)
				}}
				harmless := tool(object)
				if tc.readOnly {
					harmless.Hints.ReadOnly = new(true)
				}
				if strings.Contains(tc.name, "doubted") {
					harmless.Doubt = "its name says that it deletes"
				}
				r, err := execute(t, s, Call{Tool: harmless})
				if err != nil || !r.IsError || len(sent) != tc.want {
					t.Errorf("sent %d times, want %d; %s, %v", len(sent), tc.want, r.JSON, err)
				}
				expect.Equal(t, strings.Contains(textOf(r), "is unknown"), tc.want == 1, "it says %s", textOf(r))
				for i := range slices.Clone(sent)[1:] {
					if wait := sent[i+1].Sub(sent[i]); wait < retryPause<<i/2 || wait > retryPause<<i*3/2 {
						t.Errorf("pause %d lasted %v", i, wait)
					}
				}
			})
		})
	}
}

// All attempts together have the time of one.
func TestRetryHasOneDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &stub{policy: Policy{Retry: AlwaysRetry, Timeout: time.Second}, call: func(ctx context.Context, _ json.RawMessage) (json.RawMessage, error) {
			select {
			case <-time.After(700 * time.Millisecond):
				return nil, session.ErrClosed
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		}}
		began := time.Now()
		r, err := execute(t, s, Call{Tool: tool(object)})
		if took := time.Since(began); err != nil || took != time.Second || !strings.Contains(textOf(r), "within 1s") {
			t.Errorf("after %v: %s, %v", took, r.JSON, err)
		}
	})
}

// A server that ended during a call is waited for no longer than the call may take.
func TestRetryWaitsWithinTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &stub{policy: Policy{Retry: AlwaysRetry, Timeout: 10 * time.Second}, call: answers("", session.ErrClosed)}
		began := time.Now()
		r, err := newExecutor(registry.New(), gone{s}).Execute(t.Context(), Call{Tool: tool(object)})
		if took := time.Since(began); err != nil || took != 10*time.Second || !strings.Contains(textOf(r), "restarting") {
			t.Errorf("after %v: %s, %v", took, r.JSON, err)
		}
	})
}

// A gone server ends with its first session, and starts for ever.
type gone struct{ *stub }

func (g gone) Session(ctx context.Context, server string, from session.Client) (session.Session, error) {
	if g.asked > 0 {
		<-ctx.Done()
		return nil, &status.UnavailableError{Server: server, State: status.Restarting}
	}
	return g.stub.Session(ctx, server, from)
}

// What waits for its turn is not sent either to a server that answers no call.
func TestBreakerStopsTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sent atomic.Int32
		heals := false
		s := &stub{policy: Policy{Timeout: time.Second, MaxConcurrent: 1}, call: func(ctx context.Context, _ json.RawMessage) (json.RawMessage, error) {
			if sent.Add(1); heals {
				return json.RawMessage(fine), nil
			}
			<-ctx.Done()
			return nil, context.Cause(ctx)
		}}
		sel := newExecutor(registry.New(), s)
		began := time.Now()
		var calls sync.WaitGroup
		for range 100 {
			calls.Go(func() { sel.Execute(t.Context(), Call{Tool: tool(object)}) })
		}
		calls.Wait()
		if took := time.Since(began); sent.Load() != breakAfter || took != breakAfter*time.Second {
			t.Errorf("%d calls were sent in %v", sent.Load(), took)
		}
		heals = true
		time.Sleep(breakTime)
		for range 10 {
			calls.Go(func() {
				if r, err := sel.Execute(t.Context(), Call{Tool: tool(object)}); err != nil || r.IsError && !strings.Contains(textOf(r), "none is sent") {
					t.Errorf("%s, %v", textOf(r), err)
				}
			})
		}
		calls.Wait()
		if r, err := sel.Execute(t.Context(), Call{Tool: tool(object)}); err != nil || r.IsError || sel.limiters.of("srv").active != 0 {
			t.Errorf("healed: %s, %v, %d under way", textOf(r), err, sel.limiters.of("srv").active)
		}
	})
}

// A person who takes their time does not speak against the server that asked.
func TestBreakerForgivesQuestions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &asking{}
		s.policy.Timeout = time.Second
		sel := newExecutor(registry.New(), s)
		for range breakAfter {
			if r, err := sel.Execute(t.Context(), Call{Tool: tool(object), From: away{}}); err != nil || !r.IsError {
				t.Errorf("%s, %v", r.JSON, err)
			}
		}
		if r, err := sel.Execute(t.Context(), Call{Tool: tool(object)}); err != nil || r.IsError {
			t.Errorf("%s, %v", textOf(r), err)
		}
	})
}

// away is a client whose person is.
type away struct{ session.Client }

func (away) Ask(ctx context.Context, _ string, _ session.Message) (json.RawMessage, error) {
	<-ctx.Done()
	return nil, context.Cause(ctx)
}

package execute

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/registry"
)

// Results of tools that declare to be fit for it are given again for a while; no
// others are, and no failures.
func TestCache(t *testing.T) {
	for _, tc := range []struct {
		name             string
		cache            time.Duration
		reads, same      bool
		fails            bool
		again, other, up int // how often the server is called in all after a second, another, a late call
	}{
		{"fit", time.Minute, true, true, false, 1, 2, 3},
		{"not wanted", 0, true, true, false, 2, 3, 4},
		{"it writes", time.Minute, false, true, false, 2, 3, 4},
		{"it is not idempotent", time.Minute, true, false, false, 2, 3, 4},
		{"its hints are doubted", time.Minute, true, true, false, 2, 3, 4},
		{"it fails", time.Minute, true, true, true, 2, 3, 4},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				calls := 0
				s := &stub{policy: Policy{Cache: tc.cache}, call: func(_ context.Context, params json.RawMessage) (json.RawMessage, error) {
					calls++
					return fmt.Appendf(nil, `{"content":[],"n":%d,"isError":%v}`, calls, tc.fails), nil
				}}
				sel := newExecutor(registry.New(), s)
				find := tool(object)
				if tc.reads {
					find.Hints.ReadOnly = new(true)
				}
				if tc.same {
					find.Hints.Idempotent = new(true)
				}
				if strings.Contains(tc.name, "doubted") {
					find.Doubt = "its name says that it deletes"
				}
				call := func(args string, want int) {
					t.Helper()
					before := calls
					r, err := sel.Execute(t.Context(), Call{Tool: find, Arguments: json.RawMessage(args)})
					cached := string(wire.Member(wire.Member(r.JSON, "_meta"), "cached"))
					if err != nil || calls != want || (cached == "true") != (calls == before) {
						t.Errorf("%s: %d calls, want %d; %s, %v", args, calls, want, r.JSON, err)
					}
				}
				call(`{"a":1}`, 1)
				call(`{"a":1}`, tc.again)
				call(`{"a":2}`, tc.other)
				time.Sleep(time.Minute + 1)
				call(`{"a":1}`, tc.up)
			})
		})
	}
}

// countedCalls returns a server of which results are cached, the number of its calls, and a tool that is fit for it.
func countedCalls(answer string) (s *stub, calls *int, find *registry.NormalizedTool) {
	calls, find = new(int), tool(object)
	find.Hints = registry.Hints{ReadOnly: new(true), Idempotent: new(true)}
	return &stub{policy: Policy{Cache: time.Minute}, call: func(context.Context, json.RawMessage) (json.RawMessage, error) {
		*calls++
		return json.RawMessage(answer), nil
	}}, calls, find
}

func TestCacheIsBounded(t *testing.T) {
	var c cache
	find := tool(object)
	big := json.RawMessage(strings.Repeat("x", maxCached/10))
	key := func(args string) cacheKey { return cacheKey{tool: find, args: args} }
	for i := range 30 {
		c.keep(key(fmt.Sprint(i%15)), big, time.Hour, nil)
		if _, ok := c.find(key(fmt.Sprint(i % 15))); !ok {
			t.Errorf("result %d is dropped at once", i)
		}
		sum := 0
		for _, one := range c.known {
			sum += one.size
		}
		if c.size > maxCached || sum != c.size {
			t.Errorf("%d bytes count as %d", sum, c.size)
		}
	}
	c.keep(key(""), make(json.RawMessage, maxCached/2), time.Hour, nil)
	if _, ok := c.find(key("")); ok {
		t.Error("one result takes half of the room")
	}
}

// visitor is a client; nobody knows it from others if its home is nil.
type visitor struct {
	session.Client
	home *visitor
}

func (v *visitor) Home() session.Client {
	if v.home == nil {
		return nil
	}
	return v.home
}

// What one client was told is not told another.
func TestCacheIsOneClients(t *testing.T) {
	s, calls, find := countedCalls(fine)
	sel := newExecutor(registry.New(), s)
	a, b, nobody := &visitor{home: &visitor{}}, &visitor{home: &visitor{}}, &visitor{}
	for i, tc := range []struct {
		from session.Client
		want int
	}{{a, 1}, {a, 1}, {b, 2}, {nobody, 3}, {nobody, 4}, {nil, 5}, {nil, 5}, {a, 5}} {
		if _, err := sel.Execute(t.Context(), Call{Tool: find, From: tc.from}); err != nil || *calls != tc.want {
			t.Errorf("call %d: the server was called %d times, want %d; %v", i, *calls, tc.want, err)
		}
	}
	sel.ForgetClient(a.home)
	sel.ForgetClient(b.home)
	if left := len(sel.cache.known); left != 1 || sel.cache.size > 1000 {
		t.Errorf("%d results are kept after the clients have left, %d bytes", left, sel.cache.size)
	}
}

// What is answered with a task or a question is no result to be given again, nor
// is what was asked for in a way of its own.
func TestCacheKeepsOnlyResults(t *testing.T) {
	for name, tc := range map[string]struct{ params, answer string }{
		"a task was asked for": {`{"name":"x","task":{"ttl":5}}`, `{"task":{"taskId":"1","status":"working"}}`},
		"a task":               {``, `{"resultType":"task","taskId":"1","status":"working"}`},
		"a question":           {``, `{"resultType":"input_required","inputRequests":{},"requestState":"s"}`},
		"an answer to one":     {`{"name":"x","inputResponses":{},"requestState":"s"}`, fine},
	} {
		t.Run(name, func(t *testing.T) {
			s, calls, find := countedCalls(tc.answer)
			sel := newExecutor(registry.New(), s)
			first := Call{Tool: find}
			if tc.params != "" {
				first.Params = json.RawMessage(tc.params)
			}
			for i, c := range []Call{first, first, {Tool: find}} {
				if _, err := sel.Execute(t.Context(), c); err != nil || *calls != i+1 {
					t.Errorf("call %d: the server was called %d times, %v", i+1, *calls, err)
				}
			}
		})
	}
}

// What a session gave is not given any more when it has ended: the next one may be
// of an edited entry.
func TestCacheEndsWithTheSession(t *testing.T) {
	s, calls, find := countedCalls(fine)
	s.ended = make(chan struct{})
	sel := newExecutor(registry.New(), s)
	for _, want := range []int{1, 1, 2, 2} {
		if want == 2 && *calls == 1 {
			close(s.ended)
			s.ended = make(chan struct{})
		}
		if _, err := sel.Execute(t.Context(), Call{Tool: find}); err != nil || *calls != want {
			t.Errorf("the server was called %d times, want %d; %v", *calls, want, err)
		}
	}
}

// A small result does not keep the large buffer that it came in.
func TestCacheKeepsNoBuffer(t *testing.T) {
	var c cache
	key := cacheKey{tool: tool(object)}
	c.keep(key, make(json.RawMessage, 10, 1<<20), time.Hour, nil)
	if kept, _ := c.find(key); cap(kept) > 1<<10 {
		t.Errorf("%d bytes are kept for %d", cap(kept), len(kept))
	}
}

package execute

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/login"
	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/status"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

// A pool is some servers, by name.
type pool map[string]*stub

func (p pool) Session(ctx context.Context, server string, from session.Client) (session.Session, error) {
	if p[server].absent != nil {
		<-ctx.Done() // it is starting
	}
	return p[server].Session(ctx, server, from)
}
func (p pool) State(server string) status.State { return p[server].state }
func (p pool) Policy(server string) Policy      { return p[server].policy }

// registered returns a registry in which each server has a tool find with its schema, as edit leaves it.
func registered(t *testing.T, schemas map[string]string, edit func(*registry.NormalizedTool)) *registry.Registry {
	t.Helper()
	r := registry.New()
	for server, schema := range schemas {
		find := registry.NormalizedTool{ID: server + ":find", Server: server, Name: "find", InputSchema: json.RawMessage(schema)}
		edit(&find)
		_, err := r.Replace(server, registry.Offer{Tools: []registry.NormalizedTool{find}})
		expect.OK(t, err)
	}
	return r
}

func reads(find *registry.NormalizedTool) { find.Hints.ReadOnly = new(true) }

// twoServers returns a registry in which the servers a and b have an equal tool, find.
func twoServers(t *testing.T) *registry.Registry {
	t.Helper()
	return registered(t, map[string]string{"a": object, "b": object}, func(*registry.NormalizedTool) {})
}

// Where a server can't take a call, one of its group does, under its own names for
// the tool and the arguments.
func TestFailover(t *testing.T) {
	down := fmt.Errorf("it is starting: %w", session.ErrNotSent)
	died := fmt.Errorf("%w: it was killed", session.ErrClosed)
	group := Policy{StandIns: []string{"other", "b"}}
	for _, tc := range []struct {
		name     string
		policy   Policy
		readOnly bool
		absent   error // why a has no session
		fails    error // or how its calls end
		schema   string
		want     string // the server that answers; "" for none
		args     string // that it is sent
		path     string
		after    time.Duration // at most
	}{
		{"all is well", group, false, nil, nil, object, "a", `{"max_results":1}`, `["local"]`, 0},
		{"it is down", group, false, down, nil, object, "b", `{"max_results":1}`, `["local","a:find","b:find"]`, shortWait},
		{"the arguments do not fit", group, false, down, nil, `{"required":["q"]}`, "", "", "", StartWait + 2*shortWait},
		{"it is not known whether the arguments fit", group, false, down, nil, `{"type":7}`, "b", `{"max_results":1}`, `["local","a:find","b:find"]`, shortWait},
		{"it dies, and reading is harmless", group, true, nil, died, object, "b", `{"max_results":1}`, `["local","a:find","b:find"]`, time.Second},
		{"it dies, and nobody knows what it did", group, false, nil, died, object, "", "", "", 0},
		{"a twin, for what is harmless", Policy{Twins: []string{"b"}}, true, down, nil, object, "b", `{"max_results":1}`, `["local","a:find","b:find"]`, shortWait},
		{"it dies, and its hints are doubted", group, true, nil, died, object, "", "", "", 0},
		{"a twin, but its hints are doubted", Policy{Twins: []string{"b"}}, true, down, nil, object, "", "", "", StartWait},
		{"a twin, for what is not", Policy{Twins: []string{"b"}}, false, down, nil, object, "", "", "", StartWait},
		{"nobody stands in", Policy{}, false, down, nil, object, "", "", "", StartWait},
	} {
		t.Run(tc.name, func(t *testing.T) {
			sent := make(map[string]string)
			answer := func(server string, err error) func(context.Context, json.RawMessage) (json.RawMessage, error) {
				return func(_ context.Context, params json.RawMessage) (json.RawMessage, error) {
					sent[server] = string(wire.Member(params, "arguments"))
					return json.RawMessage(fine), err
				}
			}
			r := registered(t, map[string]string{"a": object, "b": tc.schema}, func(find *registry.NormalizedTool) {
				if find.Hints.ReadOnly = new(tc.readOnly); strings.Contains(tc.name, "doubted") {
					find.Doubt = "its name says that it deletes"
				}
			})
			synctest.Test(t, func(t *testing.T) {
				s := newExecutor(r, pool{
					"a": {policy: tc.policy, absent: tc.absent, call: answer("a", tc.fails)},
					"b": {call: answer("b", nil)},
				})
				find, _ := r.Snapshot().Tool("a:find")
				began := time.Now()
				result, err := s.Execute(t.Context(), Call{Tool: find, Arguments: json.RawMessage(`{"max_results":1}`)})
				if took := time.Since(began); err != nil || took > tc.after {
					t.Errorf("after %v: %v", took, err)
				}
				if tc.want == "" {
					if !result.IsError || result.Tool != nil || sent["b"] != "" {
						t.Errorf("answered %s, sent %v", result.JSON, sent)
					}
					return
				}
				meta := wire.Member(result.JSON, "_meta")
				server, _ := wire.String(wire.Member(meta, "server"))
				degraded := string(wire.Member(meta, "degraded"))
				expect.Equal(t, string(wire.Member(meta, "arguments_checked")), fmt.Sprint(!strings.HasPrefix(tc.name, "it is not known whether")), "arguments_checked")
				if result.IsError || server != tc.want || result.Tool == nil || result.Tool.Server != tc.want || sent[tc.want] != tc.args ||
					string(wire.Member(meta, "execution_path")) != tc.path || degraded != fmt.Sprint(tc.want != "a") {
					t.Errorf("answered %s, sent %v", result.JSON, sent)
				}
			})
		})
	}
}

// Where all are late, the
// answer names each, and none is called twice.
func TestFailoverGoesBack(t *testing.T) {
	const same = `{"properties":{"max_results":{"type":"integer"}},"additionalProperties":false}`
	r := registered(t, map[string]string{"a": object, "b": same}, reads)
	find, _ := r.Snapshot().Tool("a:find")
	call := Call{Tool: find, Arguments: json.RawMessage(`{"max_results":1}`)}
	group := Policy{StandIns: []string{"b"}, Timeout: time.Second}
	never := answers("", session.ErrNotSent)
	synctest.Test(t, func(t *testing.T) {
		var sent []string
		a := func(_ context.Context, params json.RawMessage) (json.RawMessage, error) {
			if sent = append(sent, string(wire.Member(params, "arguments"))); len(sent) <= maxAttempts {
				return nil, session.ErrNotSent
			}
			return json.RawMessage(fine), nil
		}
		s := newExecutor(r, pool{"a": {policy: group, call: a}, "b": {policy: Policy{MaxResultTokens: 1}, call: never}})
		result, err := s.Execute(t.Context(), call)
		if err != nil || result.IsError || result.Limit != 0 || sent[len(sent)-1] != `{"max_results":1}` {
			t.Errorf("sent %q, answered %s with the limit %d, %v", sent, result.JSON, result.Limit, err)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		s := newExecutor(r, pool{"a": {policy: group, call: late}, "b": {policy: group, call: late}})
		result, err := s.Execute(t.Context(), call)
		if text := textOf(result); err != nil || !strings.Contains(text, `server "a" did not answer`) || !strings.Contains(text, `server "b" did not answer`) || s.limiters.of("a").unanswered != 1 {
			t.Errorf("%s, %v; a has %d unanswered calls", text, err, s.limiters.of("a").unanswered)
		}
	})
}

// Where all are busy or silent, the answer says so of each.
func TestFailoverOfNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := twoServers(t)
		var sent atomic.Int32
		silent := func(ctx context.Context, _ json.RawMessage) (json.RawMessage, error) {
			sent.Add(1)
			<-ctx.Done()
			return nil, context.Cause(ctx)
		}
		policy := Policy{Timeout: time.Second, StandIns: []string{"a", "b"}}
		s := newExecutor(r, pool{"a": {policy: policy, call: silent}, "b": {policy: policy, call: silent}})
		find, _ := r.Snapshot().Tool("a:find")
		for range breakAfter {
			s.Execute(t.Context(), Call{Tool: find}) // one that is late may have taken effect
		}
		expect.Equal(t, sent.Load(), breakAfter, "calls sent")
		s.limiters.of("b").unanswered, s.limiters.of("b").open = breakAfter, time.Now().Add(breakTime)
		result, err := s.Execute(t.Context(), Call{Tool: find})
		if text := textOf(result); err != nil || !result.IsError || !strings.Contains(text, `server "a" did not answer`) || !strings.Contains(text, `server "b" did not answer`) || sent.Load() != breakAfter {
			t.Errorf("%s, %v", text, err)
		}
	})
}

// Who may run only what reads is not given a tool instead that may do more; and a
// server that is merely the same as another is not written to in its place.
func TestFailoverDoesNoMoreHarm(t *testing.T) {
	readOnly, same := registry.Hints{ReadOnly: new(true)}, registry.Hints{Idempotent: new(true)}
	for _, tc := range []struct {
		name   string
		policy Policy
		a, b   registry.Hints
		want   bool // whether b answers
	}{
		{"both read", Policy{StandIns: []string{"b"}}, readOnly, readOnly, true},
		{"the other may write", Policy{StandIns: []string{"b"}}, readOnly, registry.Hints{}, false},
		{"the other only reads", Policy{StandIns: []string{"b"}}, registry.Hints{}, readOnly, true},
		{"a twin reads", Policy{Twins: []string{"b"}}, readOnly, readOnly, true},
		{"a twin writes", Policy{Twins: []string{"b"}}, same, same, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			hints := map[string]registry.Hints{"a": tc.a, "b": tc.b}
			r := registered(t, map[string]string{"a": object, "b": object}, func(find *registry.NormalizedTool) { find.Hints = hints[find.Server] })
			synctest.Test(t, func(t *testing.T) {
				called := false
				s := newExecutor(r, pool{
					"a": {policy: tc.policy, absent: session.ErrNotSent},
					"b": {call: func(context.Context, json.RawMessage) (json.RawMessage, error) {
						called = true
						return json.RawMessage(fine), nil
					}},
				})
				find, _ := r.Snapshot().Tool("a:find")
				if result, err := s.Execute(t.Context(), Call{Tool: find}); err != nil || called != tc.want || result.IsError == tc.want {
					t.Errorf("the other was called: %v; %s, %v", called, result.JSON, err)
				}
			})
		})
	}
}

// One server is not blamed for the time that another took, and has its own.
func TestFailoverHasItsOwnTime(t *testing.T) {
	r := registered(t, map[string]string{"a": object, "b": object}, reads)
	find, _ := r.Snapshot().Tool("a:find")
	synctest.Test(t, func(t *testing.T) {
		takes := func(d time.Duration, err error) func(context.Context, json.RawMessage) (json.RawMessage, error) {
			return func(ctx context.Context, _ json.RawMessage) (json.RawMessage, error) {
				select {
				case <-time.After(d):
					return json.RawMessage(fine), err
				case <-ctx.Done():
					return nil, context.Cause(ctx)
				}
			}
		}
		s := newExecutor(r, pool{
			"a": {policy: Policy{Timeout: 10 * time.Second, Retry: IfHarmless, StandIns: []string{"b"}}, call: takes(3100*time.Millisecond, session.ErrClosed)},
			"b": {policy: Policy{Timeout: 10 * time.Second}, call: takes(time.Second, nil)},
		})
		result, err := s.Execute(t.Context(), Call{Tool: find})
		if err != nil || result.IsError || s.limiters.of("b").unanswered != 0 {
			t.Errorf("%s, %v; b has %d unanswered calls", result.JSON, err, s.limiters.of("b").unanswered)
		}
	})
}

// A call that a server refuses until a person has logged in is not sent there again and again.
// A stand-in takes it, and the server is not blamed for it. Without one, the error says what is needed.
func TestNeedsLogin(t *testing.T) {
	needed := fmt.Errorf("%w: %w", session.ErrNotSent, &login.NeededError{Server: "a", Why: status.ScopeMissing})
	for _, standIn := range []bool{true, false} {
		r := twoServers(t)
		synctest.Test(t, func(t *testing.T) {
			var sent atomic.Int32
			policy := Policy{}
			if standIn {
				policy.StandIns = []string{"b"}
			}
			s := newExecutor(r, pool{
				"a": {policy: policy, call: func(context.Context, json.RawMessage) (json.RawMessage, error) {
					sent.Add(1)
					return nil, needed
				}},
				"b": {call: answers(fine, nil)},
			})
			find, _ := r.Snapshot().Tool("a:find")
			for range 2 * breakAfter {
				result, err := s.Execute(t.Context(), Call{Tool: find, Arguments: json.RawMessage("{}")})
				e, ok := errors.AsType[*login.NeededError](result.Err)
				switch {
				case err != nil || result.IsError == standIn:
					t.Fatalf("%s, %v", result.JSON, err)
				case standIn && result.Tool.Server != "b", !standIn && (!ok || e.Why != status.ScopeMissing || !errors.Is(result.Err, session.ErrNotSent)):
					t.Fatalf("%s, %v", result.JSON, result.Err)
				}
			}
			expect.Equal(t, sent.Load(), 2*breakAfter, "sent … times")
		})
	}
}

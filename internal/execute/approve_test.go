package execute

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

// What is approved is what is sent, and nothing is sent that was not approved.
func TestApprove(t *testing.T) {
	no := errors.New("a person said no")
	for _, tc := range []struct {
		name, args string
		err        error
		want       Outcome
		seen       string // the arguments that are to be approved, "" if none are
		sent       bool
	}{
		{"approved", `{"n":1}`, nil, OK, `{"n":1}`, true},
		{"repaired", `"{\"n\":1}"`, nil, OK, `{"n":1}`, true},
		{"refused", `{"n":1}`, no, NotApproved, `{"n":1}`, false},
		{"do not fit", `{}`, nil, InvalidArguments, ``, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			sent, seen := "", ""
			s := &stub{call: func(_ context.Context, params json.RawMessage) (json.RawMessage, error) {
				sent = string(wire.Member(params, "arguments"))
				return json.RawMessage(fine), nil
			}}
			r, err := execute(t, s, Call{
				Tool: tool(`{"type":"object","required":["n"]}`), Arguments: json.RawMessage(tc.args),
				Approve: func(_ context.Context, args json.RawMessage) error { seen = string(args); return tc.err },
			})
			if o, fault := OutcomeOf(r, err); o != tc.want || (sent != "") != tc.sent || tc.sent && sent != seen || seen != tc.seen {
				t.Errorf("%s (%s): seen %q, sent %q", o, fault, seen, sent)
			}
			if tc.err != nil && (!errors.Is(r.Err, tc.err) || textOf(r) != tc.err.Error() || !r.IsError) {
				t.Errorf("the result is %s, the error %v", r.JSON, r.Err)
			}
		})
	}
}

// Each call is approved, also one that the cache could answer.
func TestApproveBeforeTheCache(t *testing.T) {
	yes, asked := true, 0
	s := &stub{policy: Policy{Cache: time.Minute}, call: answers(fine, nil)}
	find := tool(object)
	find.Hints = registry.Hints{ReadOnly: &yes, Idempotent: &yes}
	e := newExecutor(registry.New(), s)
	var no error
	for want := range 3 {
		if want == 2 {
			no = errors.New("no")
		}
		r, err := e.Execute(t.Context(), Call{Tool: find, Approve: func(context.Context, json.RawMessage) error { asked++; return no }})
		if asked != want+1 || err != nil || r.IsError != (no != nil) {
			t.Errorf("asked %d times: %s, %v", asked, r.JSON, err)
		}
	}
}

// A tool that must be approved does not stand in for one that need not be.
func TestUnfitStandIn(t *testing.T) {
	r := twoServers(t)
	e := newExecutor(r, pool{"a": {}, "b": {}})
	find, _ := r.Snapshot().Tool("a:find")
	for _, unfit := range []bool{false, true} {
		c := Call{Tool: find, Unfit: func(*registry.NormalizedTool) bool { return unfit }}
		if all := e.targets(&c, Policy{StandIns: []string{"b"}}); (len(all) > 1) == unfit {
			t.Errorf("unfit %v: targets %v", unfit, all)
		}
	}
}

// What was approved is one tool: no stand-in answers.
func TestApprovedHasNoStandIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := twoServers(t)
		e := newExecutor(r, pool{
			"a": {policy: Policy{StandIns: []string{"b"}}, absent: fmt.Errorf("it is down: %w", session.ErrNotSent)},
			"b": {call: answers(fine, nil)},
		})
		find, _ := r.Snapshot().Tool("a:find")
		for _, approve := range []func(context.Context, json.RawMessage) error{nil, func(context.Context, json.RawMessage) error { return nil }} {
			result, err := e.Execute(t.Context(), Call{Tool: find, Approve: approve})
			if err != nil || result.IsError != (approve != nil) {
				t.Errorf("approved first: %v: %s, %v", approve != nil, result.JSON, err)
			}
		}
	})
}

// A call that ends while a person is asked is not made, and counts as cancelled.
func TestCancelledBeforeApproval(t *testing.T) {
	left := errors.New("the client has left")
	ctx, cancel := context.WithCancelCause(t.Context())
	s := &stub{call: func(context.Context, json.RawMessage) (json.RawMessage, error) {
		t.Error("the server was called")
		return nil, nil
	}}
	r, err := newExecutor(registry.New(), s).Execute(ctx, Call{Tool: tool(object), Approve: func(ctx context.Context, _ json.RawMessage) error {
		cancel(left)
		return context.Cause(ctx)
	}})
	if o, _ := OutcomeOf(r, err); err != left || o != Cancelled {
		t.Errorf("%s, %v", o, err)
	}
}

// A call that was cancelled while it waited, such as for the others of its batch, is not sent.
func TestCancelledBeforeItIsSent(t *testing.T) {
	left := errors.New("the client has left")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(left)
	s := &stub{call: func(context.Context, json.RawMessage) (json.RawMessage, error) {
		t.Error("the server was called")
		return nil, nil
	}}
	e := newExecutor(registry.New(), s)
	r, err := e.Execute(ctx, Call{Tool: tool(object)})
	if o, _ := OutcomeOf(r, err); err != left || o != Cancelled {
		t.Errorf("%s, %v", o, err)
	}
	_, err = e.Relay(ctx, "srv", session.Request{Method: "prompts/get"})
	expect.Equal(t, err, left, "another request")
}

package execute

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

// A remoteStub is a server on another node: it notes the requests, and says where they ran.
type remoteStub struct {
	stub
	requests []session.Request
	fail     int   // requests that fail before one succeeds
	why      error // they fail; nil is ErrNotSent
}

func (s *remoteStub) Session(context.Context, string, session.Client) (session.Session, error) {
	return remoteSession{live{stub: &s.stub}, s}, nil
}

type remoteSession struct {
	live
	of *remoteStub
}

func (r remoteSession) Call(_ context.Context, q session.Request) (json.RawMessage, error) {
	return r.of.answer(q)
}

func (s *remoteStub) answer(r session.Request) (json.RawMessage, error) {
	s.requests = append(s.requests, r)
	if r.Ran != nil {
		*r.Ran = session.Run{Nodes: []string{"box"}, Verified: true, Degraded: true}
	}
	if s.fail--; s.fail >= 0 {
		return nil, errors.Join(errors.New("gone"), cmp.Or(s.why, session.ErrNotSent))
	}
	return json.RawMessage(`{"content":[],"_meta":{"node_id":"false","verified":true,"theirs":1}}`), nil
}

// Another node gets for whom a call is made, and its result says that it ran there.
func TestCallOnAnotherNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &remoteStub{stub: stub{policy: Policy{Gateway: "laptop"}}, fail: 1}
		c := Call{Tool: tool(`{}`), Profile: "dev", Rules: json.RawMessage(`{"chosen":["dev"]}`), Principal: "5e88", PrincipalName: "ann"}
		r, err := newExecutor(registry.New(), s).Execute(t.Context(), c)
		if err != nil || r.IsError || len(s.requests) != 2 {
			t.Fatalf("got %s, %v after %d requests", r.JSON, err, len(s.requests))
		}
		o := s.requests[0].Origin
		if o == nil || o.Profile != "dev" || string(o.Rules) != `{"chosen":["dev"]}` || o.Name != "ann" {
			t.Errorf("the node gets the origin %+v", o)
		}
		if len(o.Principal) != 64 || o.Principal == session.NewOrigin("", nil, "5e89", "").Principal {
			t.Errorf("the node gets the principal %q", o.Principal)
		}
		if s.requests[0].Ran == s.requests[1].Ran {
			t.Error("two attempts have one Run, which the session of the first may still write")
		}
		for key, want := range map[string]string{
			"node_id": `"box"`, "execution_path": `["laptop","box"]`, "verified": "true", "degraded": "true", "theirs": "1",
		} {
			expect.Equal(t, string(wire.Member(r.Meta(), key)), want, "_meta has %s", key)
		}
	})
}

// A result of this node never counts as verified, whatever its server says.
func TestCallOnThisNode(t *testing.T) {
	s := &remoteStub{}
	r, err := newExecutor(registry.New(), s).Execute(t.Context(), Call{Tool: tool(`{}`), Principal: "5e88"})
	if err != nil || r.IsError {
		t.Fatalf("got %s, %v", r.JSON, err)
	}
	if got := s.requests[0]; got.Origin != nil || got.Ran != nil {
		t.Errorf("a server of this node gets %+v", got)
	}
	for key, want := range map[string]string{"execution_path": `["local"]`, "verified": "false", "degraded": "false"} {
		expect.Equal(t, string(wire.Member(r.Meta(), key)), want, "_meta has %s", key)
	}
}

// A node is told which calls may be repeated: only those may run without a second message.
func TestRepeatable(t *testing.T) {
	for _, tt := range []struct {
		retry Retry
		hints registry.Hints
		want  bool
	}{
		{IfHarmless, registry.Hints{}, false},
		{IfHarmless, registry.Hints{ReadOnly: new(true)}, true},
		{NeverRetry, registry.Hints{ReadOnly: new(true)}, false},
		{AlwaysRetry, registry.Hints{}, true},
	} {
		s := &remoteStub{stub: stub{policy: Policy{Gateway: "laptop", Retry: tt.retry}}}
		called := tool(`{}`)
		called.Hints = tt.hints
		_, err := newExecutor(registry.New(), s).Execute(t.Context(), Call{Tool: called})
		expect.OK(t, err)
		expect.Equal(t, s.requests[0].Repeatable, tt.want, "retry %d, hints %+v: repeatable", tt.retry, tt.hints)
	}
}

// A client that may have given its call up.
type leaver struct {
	session.Client
	why error
}

func (l leaver) Sending(bool) error { return l.why }

// A call or request that its client has given up before it is sent is not sent.
func TestGivenUp(t *testing.T) {
	for _, why := range []error{nil, fmt.Errorf("%w: the client slept", session.ErrNotSent)} {
		s := &remoteStub{}
		e := newExecutor(registry.New(), s)
		r, err := e.Execute(t.Context(), Call{Tool: tool(`{}`), From: leaver{why: why}})
		if err != nil || !errors.Is(r.Err, why) {
			t.Errorf("given up with %v: got %s, %v", why, r.JSON, err)
		}
		if _, err := e.Relay(t.Context(), "srv", session.Request{Method: "resources/read", From: leaver{why: why}}); !errors.Is(err, why) {
			t.Errorf("given up with %v: got %v", why, err)
		}
		expect.Equal(t, len(s.requests) > 0, why == nil, "given up with %v: %d requests were sent", why, len(s.requests))
	}
}

// A node that is lost during many calls is called as soon as it is back. A server of this router that
// ends so often is not called for a while.
func TestLostNodeIsCalledAgain(t *testing.T) {
	for gateway, want := range map[string]int{"laptop": breakAfter + 1, "": breakAfter} {
		s := &remoteStub{stub: stub{policy: Policy{Gateway: gateway}}, fail: breakAfter, why: session.ErrClosed}
		e := newExecutor(registry.New(), s)
		for range breakAfter + 1 {
			_, err := e.Execute(t.Context(), Call{Tool: tool(`{}`)})
			expect.OK(t, err)
		}
		expect.Equal(t, len(s.requests), want, "gateway %q: requests", gateway)
	}
}

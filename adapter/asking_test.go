package adapter

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/approval"
	"github.com/mcp-metarouter/metarouter/internal/execute"
	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/selector"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

// An answerer is a client with a person who answers questions.
type answerer struct {
	sink
	answer func(ctx context.Context, question string) (action string, err error)
	asked  atomic.Int32
}

func (*answerer) Capabilities() json.RawMessage { return json.RawMessage(`{"elicitation":{}}`) }

func (a *answerer) Ask(ctx context.Context, server string, m session.Message) (json.RawMessage, error) {
	a.asked.Add(1)
	question, _ := wire.String(wire.Member(m.Params, "message"))
	action, err := a.answer(ctx, question)
	return wire.Marshal(map[string]string{"action": action}), err
}

func says(action string) *answerer {
	return &answerer{answer: func(context.Context, string) (string, error) { return action, nil }}
}

// asking runs a router with a profile that asks before "echo", and that fixes an argument of it.
func asking(t *testing.T) (r *Router, edit func(func(*config.Profile))) {
	t.Helper()
	c := config.Config{Servers: []config.Server{fake("s", "-tools", "echo,add")}}
	p := config.Profile{AskFor: []string{"echo"}}
	use := func() { c.Router.Profiles = map[string]config.Profile{"work": p} }
	use()
	c.Router.HTTP.Tokens = []config.Token{{Hash: "ci", Name: "build"}}
	r, edits := runningWith(t, c, Options{})
	settled(t, r)
	return r, func(change func(*config.Profile)) {
		edited := r.Edited()
		change(&p)
		use()
		edits <- c
		<-edited
	}
}

// execute calls the tool as a client with this name does.
func (s *View) call(t *testing.T, tool, args string, from session.Client, edit ...func(*selector.Call)) selector.Result {
	t.Helper()
	found, ok := s.Snapshot().Tool(tool)
	if !ok {
		t.Fatalf("no tool %s", tool)
	}
	c := selector.Call{Tool: found, Arguments: json.RawMessage(args), From: from, Client: "test", Principal: "ci", PrincipalName: "build"}
	for _, e := range edit {
		e(&c)
	}
	result, err := s.Execute(t.Context(), c)
	expect.OK(t, err)
	return result
}

func outcomeOf(r selector.Result) execute.Outcome {
	o, _ := execute.OutcomeOf(r, nil)
	return o
}

const notApproved execute.Outcome = "not_approved"

// The client's person is asked before the calls that the profile names, and no others.
func TestAskingFirst(t *testing.T) {
	r, _ := asking(t)
	s := r.Scope("work")
	var question string
	accept := says("accept")
	accept.answer = func(_ context.Context, q string) (string, error) { question = q; return "accept", nil }
	if got := s.call(t, "s:echo", `{"message":"hello"}`, accept); outcomeOf(got) != execute.OK || accept.asked.Load() != 1 {
		t.Errorf("accepted: %s, asked %d times", got.JSON, accept.asked.Load())
	}
	for _, want := range []string{"the tool echo of the server s", `profile "work"`, `"echo"`, `"message": "hello"`} {
		expect.Contains(t, question, want)
	}
	if s.call(t, "s:echo", `{"message":"hello"}`, accept); accept.asked.Load() != 2 {
		t.Error("an approval counts for a second call")
	}
	for _, action := range []string{"decline", "cancel", ""} {
		if got := s.call(t, "s:echo", `{"message":"hello"}`, says(action)); outcomeOf(got) != notApproved {
			t.Errorf("%s: %s", action, got.JSON)
		}
	}
	never := says("accept")
	if got := s.call(t, "s:add", `{"a":1,"b":2}`, never); outcomeOf(got) != execute.OK || never.asked.Load() != 0 {
		t.Errorf("a tool that no rule asks for: %s", got.JSON)
	}
	if got := s.call(t, "s:echo", `{"message":1}`, never); outcomeOf(got) != execute.InvalidArguments || never.asked.Load() != 0 {
		t.Errorf("arguments that do not fit: %s", got.JSON)
	}
	whole := r.Scope()
	if got := whole.call(t, "s:echo", `{"message":"x"}`, never); outcomeOf(got) != execute.OK || never.asked.Load() != 0 {
		t.Errorf("without a profile: %s", got.JSON)
	}
}

// A client that can't ask gets an instruction. After an admin has approved the call, it
// passes once: with the same principal, profile, tool, arguments and rules.
func TestApprovedOnThePage(t *testing.T) {
	for _, tc := range []struct {
		name string
		edit func(*selector.Call)
		rule func(*config.Profile)
		want execute.Outcome
	}{
		{"the same call", func(c *selector.Call) { c.Arguments = json.RawMessage(`{ "message": "x" }`) }, nil, execute.OK},
		{"renamed client", func(c *selector.Call) { c.Client = "other" }, nil, execute.OK},
		{"other principal", func(c *selector.Call) { c.Principal = "other" }, nil, notApproved},
		{"other arguments", func(c *selector.Call) { c.Arguments = json.RawMessage(`{"message":"y"}`) }, nil, notApproved},
		{"other parameters", func(c *selector.Call) { c.Params = json.RawMessage(`{"name":"echo","task":{"ttl":1}}`) }, nil, notApproved},
		{"other rules", nil, func(p *config.Profile) { p.Deny = []string{"x"} }, notApproved},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r, edit := asking(t)
			s := r.Scope("work")
			got := s.call(t, "s:echo", `{"message":"x"}`, &sink{})
			if text := got.Text(); outcomeOf(got) != notApproved || !strings.Contains(text, "echo") || !strings.Contains(text, `profile "work"`) || !strings.Contains(text, "/#approvals") {
				t.Fatalf("the client is answered %s", got.JSON)
			}
			desk := r.Approvals()
			all := desk.List()
			if len(all) != 1 || all[0].Principal != "build" || all[0].Profile != "work" || all[0].Client != "test" {
				t.Fatalf("on the desk: %+v", all)
			}
			expect.OK(t, desk.Decide(all[0].ID, approval.Accept, "ada"))
			if tc.rule != nil {
				edit(tc.rule)
			}
			if tc.edit == nil {
				tc.edit = func(*selector.Call) {}
			}
			if got := s.call(t, "s:echo", `{"message":"x"}`, &sink{}, tc.edit); outcomeOf(got) != tc.want {
				t.Errorf("the call: %s", got.JSON)
			}
			if got := s.call(t, "s:echo", `{"message":"x"}`, &sink{}, tc.edit); outcomeOf(got) != notApproved {
				t.Errorf("the call after it: %s", got.JSON)
			}
		})
	}
}

// An edit of the rules while a person is asked voids the answer.
func TestEditedWhileAsked(t *testing.T) {
	for name, change := range map[string]func(*config.Profile){
		"denied":  func(p *config.Profile) { p.Deny = []string{"echo"} },
		"relaxed": func(p *config.Profile) { p.AskFor = nil },
	} {
		t.Run(name, func(t *testing.T) {
			r, edit := asking(t)
			slow := &answerer{answer: func(context.Context, string) (string, error) {
				edit(change)
				return "accept", nil
			}}
			if got := r.Scope("work").call(t, "s:echo", `{"message":"x"}`, slow); outcomeOf(got) != notApproved || !strings.Contains(got.Text(), "send the call again") {
				t.Errorf("the call: %s", got.JSON)
			}
		})
	}
}

// The person sees the arguments that the server gets, with those that the profile fixes.
func TestAskingShowsFixedArguments(t *testing.T) {
	r, edit := asking(t)
	edit(func(p *config.Profile) {
		p.Arguments = map[string]map[string]json.RawMessage{"echo": {"message": json.RawMessage(`"fixed"`)}}
	})
	var question string
	from := &answerer{answer: func(_ context.Context, q string) (string, error) { question = q; return "accept", nil }}
	if got := r.Scope("work").call(t, "s:echo", `{}`, from); outcomeOf(got) != execute.OK || !strings.Contains(got.Text(), "fixed") || !strings.Contains(question, `"message": "fixed"`) {
		t.Errorf("%s after %q", got.JSON, question)
	}
}

// A routed task asks the same question; the permission of the caller does not replace a person's.
func TestRouteAsksFirst(t *testing.T) {
	r, _ := asking(t)
	s := r.Scope("work")
	tool, _ := s.Snapshot().Tool("s:echo")
	no := says("decline")
	routed, err := selector.Route(t.Context(), s, selector.RouteRequest{
		Call: selector.Call{Tool: tool, Arguments: json.RawMessage(`{"message":"x"}`), From: no}, RunUnsure: true, RunUnsafe: true,
	})
	if err != nil || outcomeOf(routed.Result) != notApproved || no.asked.Load() != 1 {
		t.Errorf("%s, %v", routed.Result.JSON, err)
	}
}

// A call that the client cancels while its person is asked is not made.
func TestCancelledWhileAsked(t *testing.T) {
	r, _ := asking(t)
	s := r.Scope("work")
	tool, _ := s.Snapshot().Tool("s:echo")
	ctx, cancel := context.WithCancelCause(t.Context())
	left := errors.New("the client has left")
	from := &answerer{answer: func(ctx context.Context, _ string) (string, error) {
		cancel(left)
		<-ctx.Done()
		return "accept", nil
	}}
	result, err := s.Execute(ctx, selector.Call{Tool: tool, Arguments: json.RawMessage(`{"message":"x"}`), From: from})
	if !errors.Is(err, left) || result.JSON != nil || len(r.Approvals().List()) != 0 {
		t.Errorf("%s, %v", result.JSON, err)
	}
}

// A client of the router's own process has its person answer in its own way.
func TestAskerAnswersItself(t *testing.T) {
	r, _ := asking(t)
	if got := r.Scope("work").call(t, "s:echo", `{"message":"x"}`, &typedYes{}); outcomeOf(got) != execute.OK {
		t.Errorf("%s", got.JSON)
	}
}

type typedYes struct{ sink }

func (*typedYes) Home() session.Client { return nil }
func (*typedYes) Person() approval.Person {
	return func(context.Context, string) (approval.Answer, error) { return approval.Accept, nil }
}

// No one is asked about a stand-in: one before which a person must be asked is unfit.
func TestStandInsThatAsk(t *testing.T) {
	s := stocked(t, map[string]config.Profile{"work": {AskFor: []string{"b:*"}}}, "a", "b").Scope("work")
	v := s.calls.scope.Visible()
	asked, unasked := v.Snapshot.Offer("b").Tools[0], v.Snapshot.Offer("a").Tools[0]
	c := s.askingFirst(v, selector.Call{Tool: unasked})
	if c.Approve != nil || c.Unfit == nil || c.Unfit(unasked) || !c.Unfit(asked) {
		t.Error("a tool stands in before which a person must be asked")
	}
}

package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/approval"
	"github.com/mcp-metarouter/metarouter/internal/script"
	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/status"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/selector"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

// A scriptProvider answers calls with the result, or not without a person.
type scriptProvider struct {
	result string
}

func (*scriptProvider) Snapshot() *registry.Snapshot        { return registry.New().Snapshot() }
func (*scriptProvider) Await(context.Context, string) error { return nil }
func (*scriptProvider) Find(context.Context, selector.Query) (selector.Ranking, error) {
	return selector.Ranking{}, nil
}
func (p *scriptProvider) Execute(ctx context.Context, c selector.Call) (selector.Result, error) {
	if answer, err := approval.PersonAt(c.From, "")(ctx, "?"); answer != approval.Accept {
		return selector.Result{}, err
	}
	return selector.Result{JSON: json.RawMessage(p.result), Tool: c.Tool}, nil
}

// typedYes is a client that asks its person in its own way.
type typedYes struct{ session.Client }

func (typedYes) Person() approval.Person {
	return func(context.Context, string) (approval.Answer, error) { return approval.Accept, nil }
}

// The calls of a script have their client's person, are made if they are allowed, and fail if a server asks in the result.
func TestScriptHost(t *testing.T) {
	e := script.New("")
	defer e.Close()
	for _, test := range []struct {
		result string
		allow  error
		want   string // in the value or in the error
	}{
		{`{"content":[{"type":"text","text":"done"}]}`, nil, "done"},
		{`{"content":[{"type":"text","text":"done"}]}`, errors.New("not this tool"), "not this tool"},
		{`{"resultType":"input_required","inputRequests":{}}`, nil, `server "s" asks its user a question`},
	} {
		o := Do(t.Context(), e, &scriptProvider{result: test.result}, script.Limits{}, Run{
			Script: script.Script{Code: `return await call("s:x")`}, Call: selector.Call{From: typedYes{}},
			Tool: func(context.Context, string, session.Client) (*registry.NormalizedTool, error) {
				return &registry.NormalizedTool{ID: "s:x", Server: "s"}, nil
			},
			Allow: func(*registry.NormalizedTool) error { return test.allow },
		})
		got := string(o.Value)
		if o.Err != nil {
			got = o.Err.Error()
		}
		expect.Contains(t, got, test.want, "%s", test.result)
	}
}

// A lateProvider has the server s, which is not listed before a script waits for it.
type lateProvider struct {
	scriptProvider
	catalog *registry.Registry
	state   status.State // of s, if it can't be called
}

func (p *lateProvider) Snapshot() *registry.Snapshot { return p.catalog.Snapshot() }

func (p *lateProvider) Await(_ context.Context, server string) error {
	if server != "s" || p.state != "" {
		return &status.UnavailableError{Server: server, State: p.state}
	}
	_, err := p.catalog.Replace("s", registry.Offer{Tools: []registry.NormalizedTool{{ID: "s:x", Server: "s", Name: "x"}}})
	return err
}

// The calls of a script say whether the tool only reads.
func TestCallsThatRead(t *testing.T) {
	e := script.New("")
	defer e.Close()
	p := &lateProvider{scriptProvider: scriptProvider{result: `{"content":[]}`}, catalog: registry.New()}
	for server, reads := range map[string]bool{"a-b": true, "a_b": false} {
		_, err := p.catalog.Replace(server, registry.Offer{Tools: []registry.NormalizedTool{{ID: server + ":to-do", Server: server, Name: "to-do", Hints: registry.Hints{ReadOnly: &reads}}}})
		expect.OK(t, err)
		o := Do(t.Context(), e, p, script.Limits{}, Run{Script: script.Script{Code: "await tools['" + server + "']['to-do']()"}, Call: selector.Call{From: typedYes{}}})
		if o.Err != nil || o.Calls[0].Reads != reads {
			t.Errorf("%s: %+v", server, o)
		}
	}
}

// A script waits for the server of a tool that is not known yet.
func TestScriptAwaitsServer(t *testing.T) {
	for _, test := range []struct {
		name  string
		state status.State
		want  string // in the error
	}{
		{"s:x", "", "<nil>"},
		{"s:y", "", `unknown tool "s:y"; did you mean s:x?`},
		{"s:x", status.Failed, `server "s"`},
		{"other:x", "", `unknown tool "other:x"`},
		{"x", "", `unknown tool "x"`},
	} {
		h := &host{p: &lateProvider{catalog: registry.New(), state: test.state}, run: &Run{}}
		found, err := h.tool(t.Context(), test.name, nil)
		if got := fmt.Sprint(err); !strings.Contains(got, test.want) || (err == nil) != (found != nil) {
			t.Errorf("%s, %s: %v, %s", test.name, test.state, found, got)
		}
	}
}

// latePerson is a client whose person answers once the script waits for nothing else.
type latePerson struct {
	session.Client
	waits chan bool
}

func (c latePerson) Ask(ctx context.Context, _ string, m session.Message) (json.RawMessage, error) {
	defer session.Asked(ctx)()
	for {
		select {
		case waits := <-c.waits:
			if waits {
				return json.RawMessage(m.Method), nil
			}
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// A question before a call, such as whether to log in, counts as a wait for a person.
func TestScriptWaitsForLogin(t *testing.T) {
	e := script.New("")
	defer e.Close()
	for _, code := range []string{`await call("s:x")`, `await describe("s:x")`} {
		waits := make(chan bool, 10)
		o := Do(t.Context(), e, &scriptProvider{}, script.Limits{Timeout: 10 * time.Second}, Run{
			Script: script.Script{Code: code}, Call: selector.Call{From: latePerson{waits: waits}}, Waiting: func(w bool) { waits <- w },
			Tool: func(ctx context.Context, _ string, from session.Client) (*registry.NormalizedTool, error) {
				answer, err := from.Ask(ctx, "s", session.Message{Method: "elicitation/create"})
				return nil, errors.Join(errors.New(string(answer)), err)
			},
		})
		if o.Err == nil || !strings.Contains(o.Err.Message, "elicitation/create") {
			t.Errorf("%s: %v", code, o.Err)
		}
	}
}

// A dyingProvider fails calls as one does that loses its server.
type dyingProvider struct {
	scriptProvider
	err error
}

func (p *dyingProvider) Execute(context.Context, selector.Call) (selector.Result, error) {
	return selector.Result{JSON: json.RawMessage(`{"isError":true,"content":[{"type":"text","text":"it ended"}]}`), IsError: true, Err: p.err}, nil
}

// A script ends if a server dies during a call that may do harm, whatever the script does with errors.
func TestScriptWhoseServerDies(t *testing.T) {
	e := script.New("")
	defer e.Close()
	for _, test := range []struct {
		err  error
		want string
	}{
		{errors.Join(session.ErrClosed, session.ErrUnknown), "LostError: the result of s:x was lost"},
		{session.ErrEnded, "LostError: the result of s:x was lost"},                                                         // the client's process has sent the script again
		{session.ErrClosed, `{"ok":false,"error":{"name":"ToolError","tool":"s:x","message":"it ended","retryable":true}}`}, // harmless
		{session.ErrNotSent, `"retryable":true`},
		{errors.New("it took too long"), `"retryable":false`},
	} {
		o := Do(t.Context(), e, &dyingProvider{err: test.err}, script.Limits{}, Run{
			Script: script.Script{Code: `return await callSafe("s:x")`},
			Tool: func(context.Context, string, session.Client) (*registry.NormalizedTool, error) {
				return &registry.NormalizedTool{ID: "s:x", Server: "s"}, nil
			},
		})
		got := string(o.Value)
		if o.Err != nil {
			got = o.Err.Error()
		}
		expect.Contains(t, got, test.want, "%v", test.err)
	}
}

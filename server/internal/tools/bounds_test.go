package tools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/status"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/selector"
	"github.com/mcp-metarouter/metarouter/server/internal/budget"
	"github.com/mcp-metarouter/metarouter/server/internal/catalog"
	"github.com/mcp-metarouter/metarouter/server/internal/conversation"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

const tooMany = 200_001 // values, above which a comparison with a schema is given up

// A lax router has some tools, and says of all arguments what a test wants.
type lax struct {
	Router
	*registry.Registry
	checked func(args json.RawMessage) selector.Checked
	query   selector.Query // of the last search
}

func (l *lax) Snapshot() *registry.Snapshot        { return l.Registry.Snapshot() }
func (l *lax) Servers() []status.Server            { return nil }
func (l *lax) Await(context.Context, string) error { return nil }
func (l *lax) Settled(context.Context) error       { return nil }
func (l *lax) passes(args json.RawMessage) selector.Checked {
	return selector.Checked{Arguments: args}
}

func (l *lax) Check(_ context.Context, _ *registry.NormalizedTool, args json.RawMessage) selector.Checked {
	return l.checked(args)
}

func (l *lax) Find(_ context.Context, q selector.Query) (selector.Ranking, error) {
	l.query = q
	return selector.Ranking{Sure: true}, nil
}

// newLax returns the tools of a router whose n tools have definitions of size bytes. Each check of
// arguments is passed.
func newLax(t *testing.T, n, size int) (*Tools, *lax) {
	t.Helper()
	l := &lax{Registry: registry.New()}
	l.checked = l.passes
	var offer registry.Offer
	for i := range n {
		name := fmt.Sprintf("tool_%d", i)
		offer.Tools = append(offer.Tools, registry.NormalizedTool{
			ID: registry.ID("w", name), Server: "w", Name: name, InputSchema: json.RawMessage(`{}`),
			Definition: json.RawMessage(`{"name":"` + name + `","description":"` + strings.Repeat("x", size) + `"}`),
		})
	}
	_, err := l.Replace("w", offer)
	expect.OK(t, err)
	options := &catalog.Options{}
	return New(Options{
		Router: l, Catalog: catalog.New(l, func() *catalog.Options { return options }),
		Settings: func() Settings { return Settings{RouteThreshold: 0.5} }, Budget: budget.Clients(), Kept: NewKept(),
	}), l
}

// list returns a list of n texts.
func list(n int, text string) string {
	return "[" + strings.Repeat(text+",", n-1) + text + "]"
}

// callBy returns a call by a client, of plain JSON-RPC or of MCP.
func callBy(plain bool) *toolCall {
	return &toolCall{Call: conversation.Call{Request: &conversation.Request{Conversation: &conversation.Conversation{Plain: plain}}}}
}

// TestUncheckedIsRefused checks that no tool of ours runs with arguments that could not be compared
// with its schema, however small they are.
func TestUncheckedIsRefused(t *testing.T) {
	s, l := newLax(t, 1, 10)
	l.checked = func(args json.RawMessage) selector.Checked {
		return selector.Checked{Arguments: args, Unchecked: true, Faults: []string{"arguments: it took too long"}}
	}
	for name, own := range s.own {
		own.run = func(context.Context, json.RawMessage, *toolCall) (json.RawMessage, error) {
			t.Errorf("%s runs", name)
			return json.RawMessage(`{}`), nil
		}
		result, err := s.runOwn(t.Context(), own, json.RawMessage(`{}`), callBy(false))
		for _, want := range []string{`"isError":true`, `"arguments_checked":false`, name + ": the arguments could not be compared with the schema", "it took too long", "send less"} {
			if err != nil || !strings.Contains(string(result), want) {
				t.Errorf("%s: %s, %v; want %q", name, result, err, want)
			}
		}
		_, err = s.runOwn(t.Context(), own, json.RawMessage(`{}`), callBy(true))
		refused, ok := errors.AsType[*session.Error](err)
		if !ok || refused.Code != session.CodeInvalidParams || !strings.Contains(refused.Message, "could not be compared with the schema of "+name) {
			t.Errorf("%s in plain JSON-RPC: %v", name, err)
		}
	}
}

// TestOwnArgumentsAreBounded checks that no tool of ours runs with large arguments, although they
// count as checked, and that those of another tool may be large.
func TestOwnArgumentsAreBounded(t *testing.T) {
	s, l := newLax(t, 1, 10)
	for name, own := range s.own {
		ran := ""
		own.run = func(_ context.Context, args json.RawMessage, _ *toolCall) (json.RawMessage, error) {
			ran = string(args)
			return json.RawMessage(`{}`), nil
		}
		large := `{"a":` + list(tooMany, `"w:tool_0"`) + `}`
		result, err := s.runOwn(t.Context(), own, json.RawMessage(large), callBy(false))
		if err != nil || ran != "" || len(result) > 10_000 || !strings.Contains(string(result), fmt.Sprintf("they have %d bytes", len(large))) {
			t.Errorf("%s: %.200s, %v", name, result, err)
		}
		l.checked = func(args json.RawMessage) selector.Checked {
			if len(args) > maxOwnArguments {
				t.Errorf("%s: %d bytes are compared with the schema", name, len(args))
			}
			return l.passes(args)
		}
		inner := `{"b":1,"arguments":{"a":` + list(tooMany, "0") + `}}`
		if _, err = s.runOwn(t.Context(), own, json.RawMessage(inner), callBy(false)); err != nil || ran != inner {
			t.Errorf("%s with the arguments of another tool ran %.200s, %v", name, ran, err)
		}
		l.checked = l.passes
	}
}

// TestHandlersAreBounded calls the handlers of our tools with arguments that no check has seen.
func TestHandlersAreBounded(t *testing.T) {
	s, l := newLax(t, 20, 200_000)
	run := func(ctx context.Context, name, args string) string {
		result, err := s.own[name].run(ctx, json.RawMessage(args), callBy(false))
		if err != nil {
			return err.Error()
		}
		return string(result)
	}
	for _, tc := range []struct{ tool, args, want string }{
		{"describe_tools", `{"ids":` + list(tooMany, `"w:tool_0"`) + `}`, "200001 ids are too many; send at most 20"},
		{"describe_tools", `{"ids":` + list(tooMany, `"w:no"`) + `}`, "200001 ids are too many; send at most 20"},
		{"find_tools", `{"query":"x","servers":` + list(tooMany, `"w"`) + `}`, "200001 names is too long; send at most 200"},
		{"find_tools", `{"query":"x","kinds":` + list(tooMany, `"tool"`) + `}`, "200001 names is too long; send at most 200"},
		{"find_tools", `{"query":"x","capabilities":` + list(tooMany, `"w"`) + `}`, "200001 names is too long; send at most 200"},
		{"route_task", `{"task":"x","capabilities":` + list(tooMany, `"w"`) + `}`, "200001 names is too long; send at most 200"},
	} {
		if got := run(t.Context(), tc.tool, tc.args); len(got) > 1000 || !strings.Contains(got, tc.want) {
			t.Errorf("%s: %.500s, want %q", tc.tool, got, tc.want)
		}
	}

	run(t.Context(), "find_tools", `{"query":"x","limit":1e300,"budget_tokens":1e300}`)
	expect.Equal(t, l.query.Limit, maxLimit+maxMore, "find_tools looks for")

	// An id counts once, definitions as long as there is room, and no more after the client has left.
	var answer struct {
		Structured struct{ Tools []Description } `json:"structuredContent"`
	}
	got := run(t.Context(), "describe_tools", `{"ids":["w:tool_0","w:tool_0","w:tool_1","w:tool_0"]}`)
	if json.Unmarshal([]byte(got), &answer); len(answer.Structured.Tools) != 2 || answer.Structured.Tools[1].Error != "" {
		t.Errorf("an id that is repeated: %.500s", got)
	}
	var all []string
	for i := range 20 {
		all = append(all, fmt.Sprintf("w:tool_%d", i))
	}
	each := `{"ids":` + string(wire.Marshal(all)) + `}`
	got = run(t.Context(), "describe_tools", each)
	if json.Unmarshal([]byte(got), &answer); len(got) > 3*maxDescribed || len(answer.Structured.Tools) != 20 ||
		answer.Structured.Tools[4].Error != "" || !strings.Contains(answer.Structured.Tools[5].Error, "describe it alone") {
		t.Errorf("definitions together: an answer of %d bytes with %d tools", len(got), len(answer.Structured.Tools))
	}
	left, leave := context.WithCancelCause(t.Context())
	leave(errors.New("the client has left"))
	if got = run(left, "describe_tools", each); got != "the client has left" {
		t.Errorf("after the client has left: %.500s", got)
	}

	s.results = &results{kept: NewKept(), exists: anyTool}
	c := callBy(false)
	uri := s.results.keep(c.Owner(), "w:tool_0", strings.Repeat("x", 3*maxPiece))
	for args, want := range map[readArguments]int{{Offset: -1}: 200, {Limit: math.MaxFloat64}: maxPiece + 200, {Limit: -1}: 200} {
		args.URI = uri
		result, err := s.results.read(t.Context(), args, c)
		if err != nil || len(result) > want {
			t.Errorf("read_result with %v: %d bytes, %v", args, len(result), err)
		}
	}
	result, err := handler("read_result", s.results.read)(t.Context(), fmt.Appendf(nil, `{"uri":%q,"offset":3.0,"limit":2e1}`, uri), c)
	if err != nil || !strings.Contains(string(result), "up to byte 23 of") {
		t.Errorf("numbers of JSON: %s, %v", result, err)
	}
}

// TestLongArgumentsAreNotRepeated checks that a proposal of route_task does not have very long
// arguments in it, and what it says of those that could not be checked.
func TestLongArgumentsAreNotRepeated(t *testing.T) {
	r := &taskRouter{finder: &finder{}}
	routed := selector.Routed{
		Selection: selector.Selection{Tool: &registry.NormalizedTool{ID: "w:tool", InputSchema: json.RawMessage(`{"required":["b"]}`)}},
		Arguments: json.RawMessage(`{"a":` + list(tooMany, "0") + `}`), Unchecked: true, Problems: []string{"arguments: too many"},
	}
	got := string(r.proposed(selector.RouteRequest{}, routed, nil))
	if len(got) > 2000 || !strings.Contains(got, "could not be compared with the tool's schema") {
		t.Errorf("%.3000s", got)
	}
	routed.Missing = []string{"b"}
	if got = string(r.proposed(selector.RouteRequest{}, routed, nil)); len(got) > 2000 || !strings.Contains(got, "arguments are missing: b") {
		t.Errorf("%.3000s", got)
	}
}

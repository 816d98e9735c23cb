package server

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/content"
	"github.com/mcp-metarouter/metarouter/internal/exposure"
	"github.com/mcp-metarouter/metarouter/internal/status"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/selector"
	"github.com/mcp-metarouter/metarouter/server/internal/conversation"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

// A toolResult is a CallToolResult whose structured content is a T.
type toolResult[T any] struct {
	Content           []struct{ Type, Text string }
	StructuredContent T
	IsError           bool
}

// perform carries out a tools/call with these parameters, as a plain client's, and
// returns the result as it is before eras differ.
func perform(ctx context.Context, s *alone, params []byte) (json.RawMessage, error) {
	params = wire.SetMember(params, "_meta", []byte(`{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`))
	r, err := s.clients.Visit(false, conversation.Identity{}, "").Begin(ctx, conversation.Read(wire.Message{ID: json.RawMessage("1"), Method: "tools/call", Params: params}), nil)
	if err != nil {
		return nil, err
	}
	defer r.Cancel(context.Canceled)
	return s.tools.Call(r.Context(), conversation.Call{Request: r, From: r})
}

// calls calls a tool and returns its result, having seen that text and structured
// content are the same.
func calls[T any](t *testing.T, s *alone, name, args string) toolResult[T] {
	t.Helper()
	raw, err := perform(t.Context(), s, fmt.Appendf(nil, `{"name":%q,"arguments":%s}`, name, args))
	expect.OK(t, err, "%s %s", name, args)
	var result toolResult[T]
	expect.OK(t, json.Unmarshal(raw, &result), "%s", raw)
	if structured := wire.Member(raw, "structuredContent"); structured != nil && string(structured) != result.Content[0].Text {
		t.Errorf("the text differs from the structured content:\n%s\n%s", result.Content[0].Text, structured)
	}
	return result
}

// fails calls a tool and wants a tool error that has all the parts.
func fails(t *testing.T, s *alone, name, args string, parts ...string) {
	t.Helper()
	result := calls[any](t, s, name, args)
	if !result.IsError {
		t.Errorf("%s %s: no error", name, args)
		return
	}
	for _, part := range parts {
		expect.Contains(t, result.Content[0].Text, part, "%s %s", name, args)
	}
}

func candidates(tools ...*registry.NormalizedTool) []selector.Candidate {
	list := make([]selector.Candidate, len(tools))
	for i, t := range tools {
		list[i] = selector.Candidate{Tool: t, Score: float64(len(tools) - i), Confidence: 0.9 / float64(i+1)}
	}
	return list
}

func TestFindTools(t *testing.T) {
	var tools []registry.NormalizedTool
	for i := range 30 {
		one := tool("s", fmt.Sprintf("tool%02d", i))
		one.Capabilities = []string{"search"}
		tools = append(tools, one)
	}
	r := newFake(tools...)
	r.ranking = selector.Ranking{Candidates: candidates(r.Tools()...), Sure: true, Partial: []string{"write"}}
	r.servers = append(r.servers, info("s", status.Ready, 30), info("down", status.Failed, 0), info("off", status.Disabled, 0), info("known", status.Restarting, 3))
	s := newAlone(r, Options{Mode: exposure.Search})

	got := calls[found](t, s, "find_tools", `{"query":"find it","capabilities":["search"],"servers":["s","down"],"limit":30.0}`).StructuredContent
	if q := r.query; q.Task != "find it" || q.Capabilities[0] != "search" || len(q.Servers) != 2 || q.Limit != 30+maxMore {
		t.Errorf("query = %+v", q)
	}
	if len(got.Tools) != 30 || !got.Sure || got.Abstained || got.Hint != "" || got.MissingCapabilities[0] != "write" || got.Omitted != 0 {
		t.Errorf("found %+v", got)
	}
	best, second := got.Tools[0], got.Tools[1]
	if best.ID != "s:tool00" || best.Description != tools[0].Description || string(best.InputSchema) != string(tools[0].InputSchema) || best.Capabilities[0] != "search" || best.Score != 30 || best.Confidence != 0.9 {
		t.Errorf("best = %+v", best)
	}
	if second.InputSchema != nil || second.Signature != "tool01({ n?: number }) — Does tool01." || second.Confidence != 0.45 {
		t.Errorf("second = %+v", second)
	}
	if len(got.ServersNotUp) != 1 || got.ServersNotUp[0].Name != "down" || got.ServersNotUp[0].State != "failed" {
		t.Errorf("not up: %+v", got.ServersNotUp)
	}

	calls[found](t, s, "find_tools", `{"query":"x"}`)
	expect.Equal(t, r.query.Limit, unsureLimit+maxMore, "limit")

	few := calls[found](t, s, "find_tools", `{"query":"x","limit":2}`).StructuredContent
	if len(few.Tools) != 2 || few.Omitted != 0 || len(few.More) != len(tools)-2 || few.More[0] != "s:tool02" {
		t.Errorf("with a limit of two: %d tools, and %q", len(few.Tools), few.More)
	}
	for _, budget := range []int{1, 50, 100, 300, 1000} {
		result := calls[found](t, s, "find_tools", fmt.Sprintf(`{"query":"x","limit":50,"budget_tokens":%d}`, budget))
		got := result.StructuredContent
		if len(got.Tools) == 0 || len(got.Tools)+got.Omitted != 30 {
			t.Errorf("budget %d: %d tools and %d omitted", budget, len(got.Tools), got.Omitted)
		}
		listed, _ := json.Marshal(got.Tools)
		if tokens := len(listed) / content.TokenBytes; tokens > budget && budget > 50 {
			t.Errorf("budget %d: %d tokens", budget, tokens)
		}
	}

	fails(t, s, "find_tools", `{"quer":"x"}`, "query", "quer", `"additionalProperties":false`)
	fails(t, s, "find_tools", `{"query":"x","limit":"many"}`, "arguments.limit", "integer")
	fails(t, s, "find_tools", `{"query":"x","limit":51}`, "arguments.limit", "50")
	fails(t, s, "find_tools", `{"query":"x","kinds":["tool","thing"]}`, "arguments.kinds.1")
	fails(t, s, "find_tools", `[]`, "object")
}

// An answer that is not sure has the ten nearest in a line each, no schema, and says what
// to do. Whether it is sure, and the confidence, are always said.
func TestFindToolsUnsure(t *testing.T) {
	tools := []registry.NormalizedTool{tool("a", "b"), tool("a", "c"), tool("a", "d"), tool("a", "e")}
	for i := range 7 {
		tools = append(tools, tool("b", fmt.Sprint("t", i)))
	}
	r := newFake(tools...)
	s := newAlone(r, Options{Mode: exposure.Search})
	all := candidates(r.Tools()...)
	all[2].Confidence = 0
	find := func() (found, string) {
		result := calls[found](t, s, "find_tools", `{"query":"x"}`)
		return result.StructuredContent, result.Content[0].Text
	}

	r.ranking = selector.Ranking{Candidates: all}
	got, text := find()
	if got.Sure || got.Abstained || len(got.Tools) != 10 || strings.Join(got.More, " ") != "b:t6" || !strings.Contains(got.Hint, "other words") {
		t.Errorf("not sure: %+v", got)
	}
	for _, e := range got.Tools {
		if e.InputSchema != nil || e.Signature == "" {
			t.Errorf("not sure: %+v", e)
		}
	}
	for _, want := range []string{`"sure":false`, `"abstained":false`, `"confidence":0}`} {
		expect.Contains(t, text, want, "not sure")
	}

	r.ranking = selector.Ranking{Candidates: all, Abstained: true}
	got, text = find()
	if got.Sure || !got.Abstained || len(got.Tools) != 5 || len(got.More) != 0 || got.Tools[0].InputSchema != nil || !strings.Contains(got.Hint, "nearest") {
		t.Errorf("abstained: %s", text)
	}

	r.ranking = selector.Ranking{Candidates: all, Sure: true}
	if got, text = find(); len(got.Tools) != 5 || got.Tools[0].InputSchema == nil || !strings.Contains(text, `"sure":true,"abstained":false`) {
		t.Errorf("sure: %s", text)
	}

	r.ranking = selector.Ranking{Candidates: all, By: selector.ByWords}
	if got, text = find(); got.By != "words" || !strings.Contains(got.Hint, "words alone") {
		t.Errorf("by words: %s", text)
	}

	r.ranking = selector.Ranking{Abstained: true}
	if got, text = find(); len(got.Tools) != 0 || strings.Contains(got.Hint, "nearest") {
		t.Errorf("nothing found: %s", text)
	}
	r.servers = append(r.servers, info("new", status.Starting, 0))
	if got, text = find(); !strings.Contains(got.Hint, "still starting") {
		t.Errorf("nothing found yet: %s", text)
	}
}

// A tool that declares the type of its structured content is shown with it.
func TestFindToolsOutput(t *testing.T) {
	typed := tool("a", "b")
	typed.Definition = wire.SetMember(typed.Definition, "outputSchema", []byte(`{"type":"object","properties":{"id":{"type":"string"}},"required":["id"]}`))
	r := newFake(typed)
	r.ranking = selector.Ranking{Candidates: candidates(r.Tools()...), Sure: true}
	s := newAlone(r, Options{Mode: exposure.Search})
	if got := calls[found](t, s, "find_tools", `{"query":"x"}`).StructuredContent.Tools[0]; got.Output != "{ id: string }" || got.InputSchema == nil {
		t.Errorf("with a schema: %+v", got)
	}
	r.ranking.Sure = false
	expect.Equal(t, calls[found](t, s, "find_tools", `{"query":"x"}`).StructuredContent.Tools[0].Signature, "b({ n?: number }) → { id: string } — Does b.", "in a line")
}

func TestDescribeTools(t *testing.T) {
	s := newAlone(newFake(tool("a", "b"), tool("c", "b")), Options{Mode: exposure.Direct}) // callable in any mode
	got := calls[struct{ Tools []description }](t, s, "describe_tools", `{"ids":["a:b","c__b","b","no"]}`).StructuredContent.Tools
	if len(got) != 4 {
		t.Fatalf("%d descriptions", len(got))
	}
	if want := tool("a", "b"); got[0].ID != "a:b" || string(got[0].Definition) != string(want.Definition) {
		t.Errorf("a:b is %s", got[0].Definition)
	}
	if got[1].ID != "c:b" || got[2].Definition != nil || !strings.Contains(got[2].Error, "a:b, c:b") || !strings.Contains(got[3].Error, "unknown") {
		t.Errorf("got %+v", got[1:])
	}
	fails(t, s, "describe_tools", `{"ids":[]}`, "arguments.ids")
	fails(t, s, "describe_tools", `{"ids":[`+strings.Repeat(`"x",`, 20)+`"x"]}`, "arguments.ids", "20")
}

func TestCallTools(t *testing.T) {
	read, write, wipe := tool("a", "read"), tool("a", "write"), tool("a", "wipe")
	yes := true
	read.Hints.ReadOnly, wipe.Hints.ReadOnly, wipe.Doubt = &yes, &yes, "its name says that it deletes"
	r := newFake(read, write, wipe)
	var got selector.Call
	r.execute = func(_ context.Context, c selector.Call) (selector.Result, error) {
		got = c
		return selector.Result{JSON: json.RawMessage(`{"content":[]}`)}, nil
	}
	s := newAlone(r, Options{})
	for _, test := range []struct{ name, args, tool, arguments string }{
		{"call_tool", `{"tool":"a:write","arguments":{"n":1}}`, "a:write", `{"n":1}`},
		{"call_tool", `{"tool":"write"}`, "a:write", ``},
		{"call_tool", `{"tool":"a.read","arguments":"{\"n\":1}"}`, "a:read", `"{\"n\":1}"`}, // for Execute to mend
		{"call_read_only_tool", `{"tool":"a__read","arguments":{}}`, "a:read", `{}`},
	} {
		got = selector.Call{}
		if result := calls[any](t, s, test.name, test.args); result.IsError || got.Tool == nil || got.Tool.ID != test.tool || string(got.Arguments) != test.arguments {
			t.Errorf("%s %s executed %+v: %+v", test.name, test.args, got, result)
		}
	}
	got = selector.Call{}
	fails(t, s, "call_read_only_tool", `{"tool":"a:write"}`, "a:write", "call_tool")
	fails(t, s, "call_read_only_tool", `{"tool":"a:wipe"}`, "a:wipe", "its name says that it deletes", "call_tool", `"trustHints": true`)
	fails(t, s, "call_read_only_tool", `{"tool":"nope"}`, "unknown tool")
	fails(t, s, "call_tool", `{"tool":"a:reed"}`, "unknown tool", "a:read")
	fails(t, s, "call_tool", `{"tool":"a:read","name":"a:write"}`, "'name' not allowed")
	fails(t, s, "call_tool", `{"tool":1}`, "arguments.tool", "string")
	fails(t, s, "call_tool", `{"tool":"a:write","arguments":[1]}`, "arguments.arguments", "object")
	if got.Tool != nil {
		t.Errorf("executed %+v", got)
	}
}

// A task of several steps is answered with the tool of each.
func TestRoutePlan(t *testing.T) {
	read, write := tool("a", "read"), tool("a", "write")
	read.InputSchema = json.RawMessage(`{"type":"object","properties":{"path":{"type":"string"}},"required":["path"]}`)
	r := newFake(read, write)
	all := candidates(r.Tools()...)
	r.selection = selector.Selection{Tool: all[0].Tool, Confidence: 0.9}
	r.plan = []selector.Step{
		{Task: "read it", Selection: selector.Selection{Tool: all[0].Tool, Confidence: 0.91}},
		{Task: "write it", Selection: selector.Selection{Tool: all[1].Tool, Confidence: 0.72}},
	}
	r.execute = answering(`{"content":[]}`)
	s := newAlone(r, Options{})
	p := calls[proposal](t, s, "route_task", `{"task":"read it and write it"}`).StructuredContent
	if p.Ran || len(p.Plan) != 2 || p.Plan[0].Tool != "a:read" || p.Plan[0].Missing[0] != "path" || p.Plan[1].Signature != "write({ n?: number })" {
		t.Errorf("proposed %+v", p)
	}
	p = calls[proposal](t, s, "route_task", `{"task":"read it and write it","arguments":{}}`).StructuredContent
	if len(p.Plan) > 0 {
		t.Errorf("with arguments for one call: %+v", p)
	}
}

func TestRouteTask(t *testing.T) {
	read, write := tool("a", "read"), tool("a", "write")
	yes := true
	read.Hints.ReadOnly = &yes
	read.InputSchema = json.RawMessage(`{"type":"object","properties":{"path":{"type":"string"}},"required":["path"]}`)
	writeAt := tool("a", "write_at")
	writeAt.InputSchema = json.RawMessage(`{"type":"object","properties":{"path":{"type":"string"},"text":{"type":"string"}},"required":["path","text"]}`)
	r := newFake(read, write, writeAt)
	var executed []string
	r.execute = func(_ context.Context, c selector.Call) (selector.Result, error) {
		executed = append(executed, c.Tool.ID+string(c.Arguments))
		return selector.Result{JSON: json.RawMessage(`{"content":[{"type":"text","text":"1"}],"_meta":{"server":"a"}}`)}, nil
	}
	s := newAlone(r, Options{RouteThreshold: 0.5})
	all := candidates(r.Tools()...) // read, write, write_at
	choose := func(i int, confidence float64) {
		r.selection = selector.Selection{Tool: all[i].Tool, Score: 7.12345, Confidence: confidence, Sure: confidence > 0.2, By: "ranking", Alternatives: all[max(1-i, 0):max(2-i, 1)], Partial: []string{"web"}}
		executed = nil
	}

	choose(0, 0.8)
	raw, err := perform(t.Context(), s, []byte(`{"name":"route_task","arguments":{"task":"read it","capabilities":["files"],"arguments":{"path":"x"}}}`))
	if want := `{"content":[{"type":"text","text":"1"}],"_meta":{"server":"a","route":{"tool":"a:read","score":7.123,"confidence":0.8,"sure":true,"by":"ranking","missing_capabilities":["web"]}}}`; err != nil || string(raw) != want {
		t.Errorf("got %s, %v\nwant %s", raw, err, want)
	}
	if fmt.Sprint(executed) != `[a:read{"path":"x"}]` || r.query.Task != "read it" || r.query.Capabilities[0] != "files" {
		t.Errorf("executed %v for %+v", executed, r.query)
	}

	for _, test := range []struct {
		name       string
		tool       int
		confidence float64
		args       string
		want       proposal
		reason     string
	}{
		{"missing", 0, 0.8, `{"task":"t"}`, proposal{Missing: []string{"path"}, Sure: true}, "arguments are missing: path"},
		{"missing and unsure", 0, 0.1, `{"task":"t"}`, proposal{Missing: []string{"path"}, Needs: []string{"run_anyway"}}, "confidence 0.10 is below"},
		{"missing, and run anyway", 0, 0.1, `{"task":"t","run_anyway":true}`, proposal{Missing: []string{"path"}}, "arguments are missing: path"},
		{"missing, unsure and not harmless", 2, 0.4, `{"task":"t"}`,
			proposal{Missing: []string{"path", "text"}, Needs: []string{"run_anyway", "allow_destructive"}, Sure: true}, "missing: path, text; the confidence 0.40 is below 0.50; run_anyway"},
		{"wrong", 0, 0.8, `{"task":"t","arguments":{"path":1}}`, proposal{Problems: []string{"arguments.path"}, Sure: true}, "do not fit"},
		{"unsure", 0, 0.4, `{"task":"t","arguments":{"path":"x"}}`, proposal{Needs: []string{"run_anyway"}, Sure: true}, "confidence 0.40 is below 0.50"},
		{"unsure, and only allowed to destroy", 0, 0.4, `{"task":"t","arguments":{"path":"x"},"allow_destructive":true}`, proposal{Needs: []string{"run_anyway"}, Sure: true}, "run_anyway"},
		{"not known to be harmless", 1, 0.9, `{"task":"t"}`, proposal{Needs: []string{"allow_destructive"}, Sure: true}, "allow_destructive"},
		{"not known to be harmless, run anyway", 1, 0.4, `{"task":"t","run_anyway":true}`, proposal{Needs: []string{"allow_destructive"}, Sure: true}, "allow_destructive"},
	} {
		t.Run(test.name, func(t *testing.T) {
			choose(test.tool, test.confidence)
			result := calls[proposal](t, s, "route_task", test.args)
			p := result.StructuredContent
			if result.IsError || p.Ran || p.Tool != all[test.tool].Tool.ID || len(p.Arguments) == 0 || len(p.Alternatives) != 1 || p.MissingCapabilities[0] != "web" {
				t.Errorf("got %+v", result)
			}
			if !strings.Contains(p.Reason, test.reason) || !slices.Equal(p.Missing, test.want.Missing) || !slices.Equal(p.Needs, test.want.Needs) {
				t.Errorf("reason %q, missing %v, needs %v", p.Reason, p.Missing, p.Needs)
			}
			if p.Confidence != test.confidence || p.Sure != test.want.Sure || p.Abstained || p.By != "ranking" {
				t.Errorf("confidence %v, sure %v, abstained %v, by %q", p.Confidence, p.Sure, p.Abstained, p.By)
			}
			if p.Alternatives[0].InputSchema != nil {
				t.Errorf("alternatives %+v", p.Alternatives)
			}
			if faulty := len(p.Problems) > 0; faulty != (p.InputSchema != nil) || len(test.want.Problems) > 0 && !strings.HasPrefix(p.Problems[0], test.want.Problems[0]) {
				t.Errorf("problems %v, schema %s", p.Problems, p.InputSchema)
			}
			if executed != nil {
				t.Errorf("executed %v", executed)
			}
		})
	}

	for _, test := range []struct {
		tool       int
		confidence float64
		args, want string
	}{
		{1, 0.9, `{"task":"t","allow_destructive":true,"arguments":"{\"n\":1}"}`, `[a:write"{\"n\":1}"]`},
		{1, 0.1, `{"task":"t","run_anyway":true,"allow_destructive":true}`, `[a:write{}]`},
		{0, 0.1, `{"task":"t","run_anyway":true,"arguments":{"path":"x"}}`, `[a:read{"path":"x"}]`},
	} {
		choose(test.tool, test.confidence)
		calls[any](t, s, "route_task", test.args)
		expect.Equal(t, fmt.Sprint(executed), test.want, "%s executed", test.args)
	}

	r.selection = selector.Selection{Abstained: true, Alternatives: all}
	abstained := calls[proposal](t, s, "route_task", `{"task":"t"}`)
	p := abstained.StructuredContent
	if p.Ran || !p.Abstained || p.Sure || p.Tool != "" || len(p.Nearest) != 3 || p.Reason == "" || !strings.Contains(abstained.Content[0].Text, `"confidence":0,"sure":false,"abstained":true`) {
		t.Errorf("abstained: %+v", abstained)
	}
	fails(t, s, "route_task", `{"task":"t","allow_destructive":"yes"}`, "arguments.allow_destructive", "boolean")
}

// Whoever asks for what is not known yet waits for servers never seen before, but
// not for ever.
func TestFirstRequestsWait(t *testing.T) {
	for name, args := range map[string]string{
		"find_tools":     `{"query":"x"}`,
		"describe_tools": `{"ids":["new:tool"]}`,
		"call_tool":      `{"tool":"new:tool"}`,
		"new__tool":      `{}`,
		"route_task":     `{"task":"x","allow_destructive":true}`,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newFake()
				r.settled = make(chan struct{})
				s := newAlone(r, Options{Mode: exposure.Search, ListWait: 10 * time.Second})
				go func() {
					time.Sleep(3 * time.Second)
					r.replace("new", tool("new", "tool"))
					r.ranking.Candidates = candidates(r.Tools()...)
					r.selection.Tool = r.Tools()[0]
					close(r.settled)
				}()
				raw, err := perform(t.Context(), s, fmt.Appendf(nil, `{"name":%q,"arguments":%s}`, name, args))
				if err != nil || !strings.Contains(string(raw), "new:tool") || strings.Contains(string(raw), "rror") {
					t.Errorf("got %s, %v", raw, err)
				}
			})
			synctest.Test(t, func(t *testing.T) {
				r := newFake()
				r.settled = make(chan struct{})
				s := newAlone(r, Options{Mode: exposure.Search, ListWait: 10 * time.Second})
				start := time.Now()
				for range 3 {
					_, _ = perform(t.Context(), s, fmt.Appendf(nil, `{"name":%q,"arguments":%s}`, name, args))
				}
				expect.Equal(t, time.Since(start), 10*time.Second, "waited")
			})
		})
	}
}

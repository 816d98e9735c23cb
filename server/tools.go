package server

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/selector"
)

// definitions are those of the router's own tools.
//
//go:embed tools.json
var definitions []byte

// An ownTool is a tool of the router itself.
type ownTool struct {
	registry.NormalizedTool
	run ownHandler
}

// An ownHandler answers a call of one of our own tools, given its arguments, which
// fit the tool's schema. It fails as
// [Router.Execute] does.
type ownHandler func(ctx context.Context, args json.RawMessage, c *call) (json.RawMessage, error)

// ownTools returns the router's own tools by name.
func (s *Server) ownTools() map[string]*ownTool {
	handlers := map[string]ownHandler{
		"find_tools":          s.findTools,
		"describe_tools":      s.describeTools,
		"call_tool":           s.runTool,
		"call_read_only_tool": s.callReadOnlyTool,
		"route_task":          s.routeTask,
		"read_result":         s.readResult,
		"list_categories":     s.listCategories,
		"classify_text":       s.classifyText,
	}
	var all []json.RawMessage
	if err := json.Unmarshal(definitions, &all); err != nil {
		panic("tools.json: " + err.Error())
	}
	tools := make(map[string]*ownTool, len(all))
	for _, indented := range all {
		var definition bytes.Buffer
		_ = json.Compact(&definition, indented)
		t := &ownTool{}
		t.Definition = definition.Bytes()
		t.InputSchema = wire.Member(t.Definition, "inputSchema")
		t.Name, _ = wire.String(wire.Member(t.Definition, "name"))
		t.ID = registry.ToolID("", t.Name)
		t.run = handlers[t.Name]
		tools[t.Name] = t
	}
	return tools
}

// observed is runOwn, in a span if there is a tracer, and tells the observer of what no
// server has answered.
func (s *Server) observed(ctx context.Context, t *ownTool, args json.RawMessage, c *call) (json.RawMessage, error) {
	began := time.Now()
	ctx, span := selector.StartSpan(ctx, s.opts.Tracer, "tools/call", t.Name, c.meta)
	c.tracedBy(span)
	result, err := s.runOwn(ctx, t, args, c)
	if s.opts.Tracer == nil && (s.opts.Observer == nil || c.routed) {
		return result, err
	}
	e := selector.Execution{
		Tool: &t.NormalizedTool, Answered: &t.NormalizedTool, Client: c.clientName(), Began: began, Took: time.Since(began),
		Attempts: 1, Arguments: args, Result: result,
	}
	e.Trace, _ = wire.String(wire.Member(wire.Member(result, "_meta"), "trace_id"))
	e.Outcome, e.Fault = selector.OutcomeOf(selector.Result{JSON: result, IsError: string(wire.Member(result, "isError")) == "true", Tool: e.Answered}, err)
	selector.EndSpan(span, selector.FailureOf(e.Outcome, err))
	if s.opts.Observer != nil && !c.routed {
		s.opts.Observer.Executed(e)
	}
	return result, err
}

// runOwn runs one of our own tools if its arguments are in order.
func (s *Server) runOwn(ctx context.Context, t *ownTool, args json.RawMessage, c *call) (json.RawMessage, error) {
	began := time.Now()
	if len(args) == 0 {
		args = json.RawMessage("{}")
	}
	// Arguments within ours that came as a string are passed on as that: whoever
	// executes the call mends them, and says so.
	inner := wire.Member(args, "arguments")
	_, isString := wire.String(inner)
	if isString {
		args = wire.SetMember(args, "arguments", []byte("{}"))
	}
	fixed, problems := s.router.Check(&t.NormalizedTool, args)
	if len(problems) > 0 {
		meta := s.ownMeta(t, c, began, false)
		if c.plain {
			return nil, mismatched(&t.NormalizedTool, problems, meta)
		}
		return withNew(failure("%s: the arguments do not fit.\n- %s\nThe schema: %s", t.Name, strings.Join(problems, "\n- "), t.InputSchema), meta), nil
	}
	if isString {
		fixed = wire.SetMember(fixed, "arguments", inner)
	}
	result, err := t.run(ctx, fixed, c)
	if err != nil || c.routed {
		return result, err
	}
	return withNew(result, s.ownMeta(t, c, began, true)), nil
}

// What call_tool and call_read_only_tool take.
type callArguments struct {
	Tool      string          `json:"tool"`
	Arguments json.RawMessage `json:"arguments"`
}

func (s *Server) runTool(ctx context.Context, args json.RawMessage, c *call) (json.RawMessage, error) {
	var a callArguments
	if err := json.Unmarshal(args, &a); err != nil {
		return failure("call_tool: %v", err), nil
	}
	tool, err := s.resolve(ctx, a.Tool)
	if err != nil {
		return failure("%v", err), nil
	}
	return s.execute(ctx, tool, a.Arguments, c)
}

func (s *Server) callReadOnlyTool(ctx context.Context, args json.RawMessage, c *call) (json.RawMessage, error) {
	var a callArguments
	if err := json.Unmarshal(args, &a); err != nil {
		return failure("call_read_only_tool: %v", err), nil
	}
	tool, err := s.resolve(ctx, a.Tool)
	if err != nil {
		return failure("%v", err), nil
	}
	if !tool.Hints.IsReadOnly() {
		return failure("%s was not run: its server does not declare that it only reads (readOnlyHint). Use call_tool to run it.", tool.ID), nil
	}
	return s.execute(ctx, tool, a.Arguments, c)
}

type describeArguments struct {
	IDs []string `json:"ids"`
}

// A description is what describe_tools says of one id: the definition, or why
// there is none.
type description struct {
	ID           string          `json:"id"`
	Kind         string          `json:"kind,omitempty"` // of what is no tool
	Capabilities []string        `json:"capabilities,omitempty"`
	Definition   json.RawMessage `json:"definition,omitempty"`
	Error        string          `json:"error,omitempty"`
}

func (s *Server) describeTools(ctx context.Context, args json.RawMessage, _ *call) (json.RawMessage, error) {
	var a describeArguments
	if err := json.Unmarshal(args, &a); err != nil {
		return failure("describe_tools: %v", err), nil
	}
	described := make([]description, 0, len(a.IDs))
	for _, id := range a.IDs {
		described = append(described, s.describeID(ctx, id)...)
	}
	return answer(map[string]any{"tools": described}), nil
}

// describeID describes all that has the id: a prompt may share it with a tool.
func (s *Server) describeID(ctx context.Context, id string) []description {
	items := s.router.Snapshot().Items(id)
	if len(items) == 0 {
		tool, err := s.resolve(ctx, id) // which takes names of other forms, and waits for servers
		items = s.router.Snapshot().Items(id)
		switch {
		case len(items) > 0:
		case err != nil:
			return []description{{ID: id, Error: err.Error()}}
		default:
			items = []registry.Item{{Tool: tool}}
		}
	}
	described := make([]description, len(items))
	for i, item := range items {
		described[i] = s.describeItem(item)
	}
	return described
}

// describeItem returns the definition, with the name or URI that clients use
// where it is no tool.
func (s *Server) describeItem(i registry.Item) description {
	d := description{ID: i.ID()}
	if i.Tool != nil {
		d.Capabilities, d.Definition = i.Tool.Capabilities, i.Tool.Definition
		return d
	}
	d.Kind = i.Kind()
	switch {
	case i.Prompt != nil:
		d.Definition = named(i.Prompt.Definition, "name", s.promptName(i.Prompt))
	case i.Resource != nil:
		d.Definition = named(i.Resource.Definition, "uri", s.resourceURI(i.Resource))
	case i.Template != nil:
		d.Definition = named(i.Template.Definition, "uriTemplate", s.templateURI(i.Template))
	}
	return d
}

// answer returns a tool result that holds v, as text and as structured content.
func answer(v any) json.RawMessage {
	structured := wire.Marshal(v)
	return wire.Marshal(struct {
		Content    []textContent   `json:"content"`
		Structured json.RawMessage `json:"structuredContent"`
	}{[]textContent{{"text", string(structured)}}, structured})
}

// failure returns a tool result that says what went wrong.
func failure(format string, args ...any) json.RawMessage {
	return wire.Marshal(struct {
		Content []textContent `json:"content"`
		IsError bool          `json:"isError"`
	}{[]textContent{{"text", fmt.Sprintf(format, args...)}}, true})
}

type textContent struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

// round returns a score as it is shown.
func round(score float64) float64 {
	if math.IsNaN(score) || math.IsInf(score, 0) {
		return 0
	}
	return math.Round(score*1000) / 1000
}

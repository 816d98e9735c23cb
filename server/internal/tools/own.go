package tools

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/mcp-metarouter/metarouter/internal/commandline"
	"github.com/mcp-metarouter/metarouter/internal/execute"
	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/registry"
)

// definitions define the router's own tools. Claude Code hides the tools of MCP servers
// behind a search of its own, unless their _meta has anthropic/alwaysLoad: a model would
// search for find_tools before it could search.
//
//go:embed tools.json
var definitions []byte

// An ownTool is a tool of the router itself.
type ownTool struct {
	*registry.NormalizedTool
	run ownHandler
}

// An ownHandler answers a call of one of our own tools, given its arguments, which
// fit the tool's schema. It bounds its work and its answer itself, whatever the schema says. It
// fails as Execute of a [Router] does.
type ownHandler func(ctx context.Context, args json.RawMessage, c *toolCall) (json.RawMessage, error)

// handler returns the handler of one of our own tools with arguments of type A.
func handler[A any](name string, run func(ctx context.Context, args A, c *toolCall) (json.RawMessage, error)) ownHandler {
	return func(ctx context.Context, args json.RawMessage, c *toolCall) (json.RawMessage, error) {
		var a A
		if err := json.Unmarshal(args, &a); err != nil {
			return failure("%s: %v", name, err), nil
		}
		return run(ctx, a, c)
	}
}

// Own returns the definitions of the router's own tools.
func Own() (tools []*registry.NormalizedTool) {
	for indented := range wire.Values(definitions) {
		var compact bytes.Buffer
		_ = json.Compact(&compact, indented)
		definition := compact.Bytes()
		name := wire.Text(definition, "name")
		tools = append(tools, &registry.NormalizedTool{
			ID: registry.ID("", name), Name: name, InputSchema: wire.Member(definition, "inputSchema"), Definition: definition,
		})
	}
	return tools
}

// callOwn runs one of our own tools, in a span if there is a tracer. The observer is
// notified unless a server's tool was executed: then it was notified of that.
func (t *Tools) callOwn(ctx context.Context, own ownTool, c *toolCall) (json.RawMessage, error) {
	ctx, span := execute.StartSpan(ctx, t.Tracer, "tools/call", own.Name, c.Meta)
	c.tracedBy(span)
	result, err := t.runOwn(ctx, own, c.Args, c)
	t.reporter.ended(own, c, span, result, err)
	return result, err
}

// How many bytes of arguments our own tools take, besides those that they pass on to another tool.
const (
	maxOwnArguments = 64 << 10
	maxTexts        = 1 << 20 // classify_text and run_script
)

// most returns how many bytes of arguments the tool takes.
func (o ownTool) most() int {
	if o.Name == "classify_text" || o.Name == "run_script" {
		return maxTexts
	}
	return maxOwnArguments
}

// runOwn runs one of our own tools if it is known that its arguments fit the tool's schema.
func (t *Tools) runOwn(ctx context.Context, own ownTool, args json.RawMessage, c *toolCall) (json.RawMessage, error) {
	args = wire.OrEmpty(args)
	// A model may write the arguments of the inner tool as a string, such as
	// {"tool":"a__b","arguments":"{\"n\":1}"}. Our schema asks for an object, so {} stands
	// for the string during the check. Execute gets the string: it repairs it and says so. It
	// also compares a large object with the schema of the inner tool.
	inner := wire.Member(args, "arguments")
	if (own.Name == "call_tool" || own.Name == "call_read_only_tool") && string(inner) == "null" {
		args, inner = wire.DeleteMember(args, "arguments"), nil
	}
	if n := len(args) - len(inner); n > own.most() {
		return t.refuse(own, c, "do not fit", fmt.Sprintf("arguments: they have %d bytes, at most %d are allowed; send less", n, own.most()))
	}
	_, hidden := wire.String(inner)
	if hidden = hidden || wire.IsObject(inner) && len(inner) > maxOwnArguments; hidden {
		args = wire.SetMember(args, "arguments", []byte("{}"))
	}
	checked := t.Router.Check(ctx, own.NormalizedTool, args)
	switch {
	case checked.Unchecked:
		return t.refuse(own, c, "could not be compared with", append(checked.Faults, "arguments: send less, or try again")...)
	case len(checked.Faults) > 0:
		return t.refuse(own, c, "do not fit", checked.Faults...)
	}
	fixed := checked.Arguments
	if c.repaired = checked.Repaired; hidden {
		fixed = wire.SetMember(fixed, "arguments", inner)
	}
	result, err := own.run(ctx, fixed, c)
	if err != nil || c.executed {
		return result, err
	}
	return withNew(result, t.reporter.meta(own, c, true)), nil
}

// refuse answers a call of one of our own tools that is not run, since its arguments do not fit the
// schema, or could not be compared with it.
func (t *Tools) refuse(own ownTool, c *toolCall, how string, problems ...string) (json.RawMessage, error) {
	meta := t.reporter.meta(own, c, false)
	if c.Plain {
		return nil, mismatched(own.NormalizedTool, how, problems, meta)
	}
	return withNew(failure("%s: the arguments %s the schema.\n- %s\nThe schema: %s", own.Name, how, strings.Join(problems, "\n- "), own.InputSchema), meta), nil
}

// callArguments are the arguments of call_tool and call_read_only_tool.
type callArguments struct {
	Tool      string          `json:"tool"`
	Arguments json.RawMessage `json:"arguments"`
}

// callNamed answers call_tool or call_read_only_tool.
func (t *Tools) callNamed(ctx context.Context, a callArguments, c *toolCall, own string) (json.RawMessage, error) {
	tool, err := t.runner.find(ctx, a.Tool, c.From)
	if errors.As(err, new(*session.Error)) {
		return nil, err
	} else if err != nil {
		return failure("%v", err), nil
	}
	if own == "call_read_only_tool" && !tool.Reads() {
		return mayWrite(tool), nil
	}
	return t.runner.run(ctx, tool, a.Arguments, c)
}

// mayWrite is the answer to a call of call_read_only_tool for another tool.
func mayWrite(tool *registry.NormalizedTool) json.RawMessage {
	if tool.Hints.IsReadOnly() {
		return failure("%s was not run: its server declares that it only reads (readOnlyHint), but %s. Use call_tool to run it. "+
			"A person who knows that the declaration is right can write \"trustHints\": true in the entry of %s, or confirm hints that changed with 'metarouter trust --hints %s'.",
			tool.ID, tool.Doubt, tool.Server, commandline.Quote(tool.Server))
	}
	return failure("%s was not run: its server does not declare that it only reads (readOnlyHint). Use call_tool to run it.", tool.ID)
}

// list_categories and classify_text follow the classification protocol of vLLM semantic
// router: their answers are JSON in a text.

type classifyArguments struct {
	Text              string `json:"text"`
	WithProbabilities bool   `json:"with_probabilities"`
}

func (t *Tools) classifyText(ctx context.Context, a classifyArguments, _ *toolCall) (json.RawMessage, error) {
	o, err := t.Router.Classifier().Classify(ctx, a.Text)
	if err != nil {
		return failure("classify_text: %v", err), nil
	}
	if !a.WithProbabilities {
		o.Probabilities = nil
	}
	return answer(o), nil
}

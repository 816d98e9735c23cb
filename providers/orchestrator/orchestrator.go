package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/mcp-metarouter/metarouter/adapter"
	"github.com/mcp-metarouter/metarouter/providers/mux"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/selector"
)

// An orchestrator does one task after another, and prints how.
type orchestrator struct {
	all *mux.Mux
	out io.Writer
}

// do does a task: it selects a tool, finds its arguments and runs it. If no tool is
// a sure match, a model answers.
func (o orchestrator) do(ctx context.Context, line string) error {
	task, given := split(line)
	fmt.Fprintln(o.out, task)
	var arguments json.RawMessage
	model := "" // that wrote the arguments
	request := selector.RouteRequest{
		Query:     selector.Query{Task: task},
		Call:      selector.Call{Arguments: given},
		Threshold: 0.5,
		RunUnsafe: true, // the person who wrote the task wants it done
		Arguments: func(tool *registry.NormalizedTool, permitted bool) json.RawMessage {
			if given == nil && permitted {
				if arguments, model = o.arguments(ctx, tool, task); arguments != nil {
					return arguments
				}
			}
			return given
		},
	}
	routed, err := selector.Route(ctx, o.all, request)
	if err != nil {
		return err
	}
	fmt.Fprintln(o.out, "   why:", adapter.Why(ctx, o.all, request.Query, routed.Selection))
	if !routed.Selection.Sure {
		tool := o.model()
		if tool == nil {
			return nil
		}
		fmt.Fprintln(o.out, "   asking", tool.ID, "instead")
		request.Call.Tool = tool
		if routed, err = selector.Route(ctx, o.all, request); err != nil {
			return err
		}
	}
	if model != "" {
		fmt.Fprintln(o.out, "   arguments:", string(arguments), "by", model)
	}
	o.print(routed)
	return nil
}

// print prints the result of a task, or why its tool did not run.
func (o orchestrator) print(r selector.Routed) {
	text, mark := r.Result.Text(), "result:"
	switch {
	case !r.Ran:
		mark, text = "failed:", fmt.Sprintf("The arguments do not fit %s: %s", r.Selection.Tool.ID, strings.Join(r.Problems, "\n"))
	case r.Result.IsError:
		mark = "failed:"
	case r.Result.Tool != nil && r.Result.Tool.ID != r.Selection.Tool.ID:
		mark = "result, of " + r.Result.Tool.ID + ":"
	}
	fmt.Fprintln(o.out, "  ", mark, strings.ReplaceAll(text, "\n", "\n   "))
}

// split separates a task from the JSON object at its end. The object may be nil.
func split(line string) (task string, arguments json.RawMessage) {
	if i := strings.Index(line, "{"); i >= 0 && json.Valid([]byte(line[i:])) {
		return strings.TrimSpace(line[:i]), json.RawMessage(line[i:])
	}
	return line, nil
}

// arguments returns the tool's arguments for the task, and the model that wrote them. A
// model's argument is the task itself.
func (o orchestrator) arguments(ctx context.Context, tool *registry.NormalizedTool, task string) (arguments json.RawMessage, by string) {
	if isModel(tool) {
		prompt, _ := json.Marshal(map[string]string{"prompt": task})
		return prompt, ""
	}
	model := o.model()
	if model == nil || len(selector.Missing(tool, nil)) == 0 {
		return nil, "" // Route reports what is missing
	}
	result, err := adapter.Execute(ctx, o.all, model.ID, map[string]any{
		"system":          "You fill in the arguments of a tool. Answer with a JSON object that fits its schema, and with nothing else.",
		"prompt":          fmt.Sprintf("Task: %s\nTool: %s: %s\nSchema: %s", task, tool.Name, tool.Description, tool.InputSchema),
		"response_format": map[string]string{"type": "json_object"},
	})
	if err != nil || result.IsError || !json.Valid([]byte(result.Text())) {
		return nil, ""
	}
	return json.RawMessage(result.Text()), model.ID
}

// model returns a language model, or nil.
func (o orchestrator) model() *registry.NormalizedTool {
	for _, tool := range o.all.FindByCapability("ai") {
		if isModel(tool) {
			return tool
		}
	}
	return nil
}

// isModel reports whether the tool is a model, which takes a prompt.
func isModel(tool *registry.NormalizedTool) bool {
	return slices.Contains(tool.Capabilities, "ai") && slices.Contains(tool.Capabilities, "chat")
}

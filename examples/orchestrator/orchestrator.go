package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/mcp-metarouter/metarouter/adapter"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/selector"
)

// An orchestrator does one task after another, and says how.
type orchestrator struct {
	all adapter.ProviderAdapter
	out io.Writer
}

// do does a task: it selects a tool, finds its arguments and runs it. What suits no
// tool is for a model to answer.
func (o orchestrator) do(ctx context.Context, line string) error {
	task, given := split(line)
	fmt.Fprintln(o.out, task)
	query := selector.Query{Task: task}
	selection, err := o.all.Select(ctx, query)
	if err != nil {
		return err
	}
	fmt.Fprintln(o.out, "   why:", adapter.Why(ctx, o.all, query, selection))
	tool := selection.Tool
	if tool == nil {
		if tool = o.model(); tool == nil {
			return nil
		}
		fmt.Fprintln(o.out, "   asking", tool.ID, "instead")
	}

	arguments := given
	if arguments == nil {
		var by string
		if arguments, by = o.arguments(ctx, tool, task); by != "" {
			fmt.Fprintln(o.out, "   arguments:", string(arguments), "by", by)
		}
	}
	result, err := o.all.Execute(ctx, selector.Call{Tool: tool, Arguments: arguments})
	if err != nil {
		return err
	}
	mark := "result:"
	if result.IsError {
		mark = "failed:"
	} else if result.Tool != nil && result.Tool.ID != tool.ID {
		mark = "result, of " + result.Tool.ID + ":"
	}
	fmt.Fprintln(o.out, "  ", mark, strings.ReplaceAll(result.Text(), "\n", "\n   "))
	return nil
}

// split parts a task from the JSON object at its end, nil if there is none.
func split(line string) (task string, arguments json.RawMessage) {
	if i := strings.Index(line, "{"); i >= 0 && json.Valid([]byte(line[i:])) {
		return strings.TrimSpace(line[:i]), json.RawMessage(line[i:])
	}
	return line, nil
}

// arguments returns what the tool is given for the task, and which model said so. A
// model is given the task itself.
func (o orchestrator) arguments(ctx context.Context, tool *registry.NormalizedTool, task string) (arguments json.RawMessage, by string) {
	if isModel(tool) {
		prompt, _ := json.Marshal(map[string]string{"prompt": task})
		return prompt, ""
	}
	model := o.model()
	if model == nil || len(selector.Missing(tool, nil)) == 0 {
		return nil, "" // what is missing, the tool's schema says
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

// model returns a language model, nil if there is none.
func (o orchestrator) model() *registry.NormalizedTool {
	for _, tool := range o.all.FindByCapability("ai") {
		if isModel(tool) {
			return tool
		}
	}
	return nil
}

// isModel reports whether the tool is a model, which takes a prompt.
func isModel(tool *registry.NormalizedTool) bool { return tool.Bears([]string{"ai", "chat"}) == 2 }

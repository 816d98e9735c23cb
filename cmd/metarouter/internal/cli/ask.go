package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/mcp-metarouter/metarouter/classify"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/admin"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/exit"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/terminal"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/why"
	"github.com/mcp-metarouter/metarouter/registry"
)

// Classify sorts a text into one of the categories, and prints it.
func Classify(ctx context.Context, e *Env, text string) error {
	if strings.TrimSpace(text) == "" {
		return exit.Usage(errors.New(`the text is empty; write at least one word: metarouter classify "TEXT"`))
	}
	return e.ask(ctx, need{}, func(ctx context.Context, c *client) error {
		var answer admin.Classified
		if err := c.post(ctx, "/dashboard/classify", e.asClient(), admin.ClassifyRequest{Text: text}, &answer); err != nil {
			return err
		}
		if e.JSON {
			return e.PrintJSON(answer.Outcome)
		}
		answer.Outcome.Categories = answer.Categories
		return printCategory(e, answer.Outcome)
	})
}

// printCategory prints the category of a text, and the most probable categories.
func printCategory(e *Env, o classify.Outcome) error {
	const most = 10 // categories that are printed
	reasoning := "without reasoning"
	if o.UseReasoning {
		reasoning = "with reasoning"
	}
	e.Say("%s (confidence %.2f): model %s, %s", o.Category, o.Confidence, o.Model, reasoning)
	if o.Degraded {
		fmt.Fprintln(e.Err, "the other classification server does not answer, so the built-in classifier answered")
	}
	order := make([]int, len(o.Probabilities))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(o.Probabilities[j], o.Probabilities[i]) })
	var rows []terminal.Row
	for _, i := range order[:min(len(order), most)] {
		rows = append(rows, terminal.Row{{Text: fmt.Sprintf("%.3f", o.Probabilities[i])}, {Text: o.Categories[i]}})
	}
	return e.PrintRows(rows, nil)
}

// Why prints why a tool is offered or not, and where it ranks for a task, unless that is "".
func Why(ctx context.Context, e *Env, tool, task string) error {
	return e.ask(ctx, need{}, func(ctx context.Context, c *client) error {
		parameters := e.named()
		parameters.Set("tool", tool)
		parameters.Set("for", task)
		var answer why.Answer
		err := c.get(ctx, "/dashboard/why", parameters, &answer)
		if err != nil {
			return err
		}
		if e.JSON {
			err = e.PrintJSON(answer)
		} else {
			verdict := "is not offered"
			if answer.Offered {
				verdict = "is offered"
			}
			e.Say("%s %s.", answer.Tool, verdict)
			for _, reason := range answer.Reasons {
				e.SayBroken("  - ", reason)
			}
		}
		if err == nil && !answer.Offered {
			err = &exit.Error{Code: exit.NoTool}
		}
		return err
	})
}

// ConfirmHints prints which hints of a server's tools changed since they were confirmed, and confirms
// them unless they are only to be shown.
func ConfirmHints(ctx context.Context, e *Env, server string, show bool) error {
	return e.ask(ctx, need{}, func(ctx context.Context, c *client) error {
		var changed admin.Hints
		if err := c.get(ctx, serverPath(server)+"/hints", nil, &changed); err != nil {
			return err
		}
		if len(changed.Hints) == 0 {
			e.Note("no hints of %q wait to be confirmed", server)
			return nil
		}
		shown := make(map[string]registry.Hints, len(changed.Hints))
		for _, h := range changed.Hints {
			shown[h.Tool] = h.Hints
			e.Say("%s", h.ID)
			for _, change := range h.Changes {
				e.SayBroken("  - ", change)
			}
		}
		if show {
			return nil
		}
		if err := c.post(ctx, serverPath(server)+"/hints", nil, admin.Confirmation{Hints: shown}, &admin.Servers{}); err != nil {
			return err
		}
		tools := "The hints of 1 tool"
		if n := len(changed.Hints); n > 1 {
			tools = fmt.Sprintf("The hints of %d tools", n)
		}
		e.Say("%s of %q are confirmed.", tools, server)
		return nil
	})
}

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mcp-metarouter/metarouter/adapter"
	"github.com/mcp-metarouter/metarouter/selector"
)

func (a *app) route() *cobra.Command {
	var raw string
	var tags []string
	var dryRun, yes bool
	cmd := a.jsonFlag(leaf("route TASK", "Pick the best tool for a task and run it",
		`  metarouter route "convert 5 kilometers to miles" --args '{"value":5,"from_unit":"km","to_unit":"mi"}'
  metarouter route "take a screenshot" -c browser -c screenshot --dry-run`,
		cobra.MinimumNArgs(1), func(ctx context.Context, args []string) error {
			a.calls = true
			c, err := a.load(ctx)
			if err == nil {
				raw, err = a.readArguments(raw)
			}
			if err != nil {
				return err
			}
			q := selector.Query{Task: strings.Join(args, " "), Capabilities: tags}
			return a.with(ctx, c, func(ctx context.Context, r *adapter.Router) error {
				if err := a.settle(ctx, r); err != nil {
					return err
				}
				sel, err := r.Select(ctx, q)
				if err != nil {
					return err
				}
				a.notePartial(sel.Partial)
				answer := routed{Alternatives: candidates(sel.Alternatives)}
				if sel.Abstained {
					fmt.Fprintln(a.stderr, noFit(sel.Alternatives))
					return a.answer(answer, &exitError{code: exitNoTool})
				}
				t := sel.Tool
				answer.Tool, answer.Score, answer.Confidence = t.ID, sel.Score, sel.Confidence
				if dryRun {
					return a.answer(answer, nil)
				}
				if missing := selector.Missing(t, json.RawMessage(raw)); len(missing) > 0 {
					return a.answer(answer, &exitError{exitFailed, fmt.Errorf("%s was not run: --args lacks %s; its schema: %s",
						t.ID, strings.Join(missing, ", "), t.InputSchema)})
				}
				if ok, why := selector.MayRun(sel, c.Router.RouteThreshold); !ok && !yes {
					return a.answer(answer, &exitError{exitFailed, fmt.Errorf("%s was not run: %s; run it with --yes", t.ID, why)})
				}
				result, err := r.Execute(ctx, selector.Call{Tool: t, Arguments: json.RawMessage(raw), Client: "metarouter route"})
				if err != nil {
					return fmt.Errorf("call %s: %w", t.ID, err)
				}
				answer.Result = result.JSON
				if result.IsError {
					return a.answer(answer, &exitError{code: exitFailed})
				}
				return a.answer(answer, nil)
			})
		}))
	cmd.Flags().StringVar(&raw, "args", "", argsUsage)
	cmd.Flags().StringArrayVarP(&tags, "capability", "c", nil, "only tools that bear the `tag`; repeatable")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "pick, and run nothing")
	cmd.Flags().BoolVar(&yes, "yes", false, "run it even if it may change or destroy something, or is a weak match")
	return cmd
}

// A routed is the answer of route as JSON.
type routed struct {
	Tool         string          `json:"tool"`
	Score        float64         `json:"score"`
	Confidence   float64         `json:"confidence"`
	Alternatives []candidate     `json:"alternatives"`
	Result       json.RawMessage `json:"result,omitempty"`
}

// answer prints what route has to say, and returns the error that decides the
// exit code. Where a result is printed, the tool's name goes to stderr.
func (a *app) answer(r routed, verdict error) error {
	if a.json {
		if err := a.printJSON(r); err != nil {
			return err
		}
		return verdict
	}
	if r.Result != nil {
		fmt.Fprintf(a.stderr, "%s (confidence %.2f)\n", r.Tool, r.Confidence)
		if err := a.printResult(r.Result); err != nil {
			return err
		}
		return verdict
	}
	if r.Tool != "" {
		fmt.Fprintf(a.stdout, "%.2f  %s\n", r.Confidence, r.Tool)
	}
	for _, c := range r.Alternatives {
		fmt.Fprintf(a.stdout, "%.2f  %s  %s\n", c.Confidence, c.ID, summary(c.Description))
	}
	return verdict
}

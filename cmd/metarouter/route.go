package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mcp-metarouter/metarouter/adapter"
	"github.com/mcp-metarouter/metarouter/internal/example"
	"github.com/mcp-metarouter/metarouter/selector"
)

// routeOptions are the flags of route.
type routeOptions struct {
	args         string
	capabilities []string
	dryRun, yes  bool
}

func newRouteCommand(env *environment) *cobra.Command {
	var o routeOptions
	cmd := newCommand("route TASK", "Pick the best tool for a task and run it",
		`  metarouter route "convert 5 kilometers to miles" --args '{"value":5,"from_unit":"km","to_unit":"mi"}'
  metarouter route "take a screenshot" -c browser -c screenshot --dry-run`,
		arguments(1, -1, `write the task in words, such as "convert 5 km to miles"`), func(ctx context.Context, args []string) error {
			return runRoute(ctx, env, strings.Join(args, " "), o)
		})
	addJSONFlag(env, cmd)
	addArgsFlag(cmd, &o.args)
	addCapabilityFlag(cmd, &o.capabilities, preferTags)
	cmd.Flags().BoolVar(&o.dryRun, "dry-run", false, "Show which tool would be picked, and run nothing. By default the tool runs if that is safe; see --yes.")
	cmd.Flags().BoolVar(&o.yes, "yes", false, "Run the tool even if it may change or destroy something, or if the confidence is below routeThreshold. By default such a tool is named and not run.")
	return cmd
}

// A routeAnswer is what route prints as JSON.
type routeAnswer struct {
	Tool         string          `json:"tool"`
	Score        float64         `json:"score"`
	Confidence   float64         `json:"confidence"`
	Places       []string        `json:"places,omitempty"`    // servers that have the same tool, that of Tool first
	Ambiguous    bool            `json:"ambiguous,omitempty"` // nothing says which server is meant
	Sure         bool            `json:"sure"`
	Abstained    bool            `json:"abstained"`
	By           string          `json:"by,omitempty"`
	Missing      []string        `json:"missing,omitempty"` // required arguments that were not given
	Example      json.RawMessage `json:"example,omitempty"` // arguments as they may look; if some are missing
	Alternatives []candidate     `json:"alternatives"`
	Result       json.RawMessage `json:"result,omitempty"`
}

func runRoute(ctx context.Context, env *environment, task string, o routeOptions) error {
	if strings.TrimSpace(task) == "" {
		return usage(errors.New(`the task is empty; write it in words: metarouter route "convert 5 km to miles"`))
	}
	c, err := loadConfig(ctx, env)
	if err != nil {
		return err
	}
	arguments, err := readArguments(env, o.args)
	if err != nil {
		return err
	}
	return withRouterForCalls(ctx, env, c, func(ctx context.Context, r *adapter.Parts) error {
		if err := awaitTools(ctx, env, r); err != nil {
			return err
		}
		routed, err := selector.Route(ctx, r, selector.RouteRequest{
			Query:     selector.Query{Task: task, Capabilities: o.capabilities, Assistant: r.Assistant()},
			Call:      selector.Call{Arguments: arguments, Client: "metarouter route"},
			DryRun:    o.dryRun,
			Threshold: c.Router.RouteThreshold,
			RunUnsure: o.yes,
			RunUnsafe: o.yes,
		})
		sel, t := routed.Selection, routed.Selection.Tool
		if err != nil && t == nil {
			return err
		}
		notePartial(env, sel.Partial)
		if err != nil {
			return fmt.Errorf("call %s: %w", t.ID, oneLine{err})
		}
		answer := routeAnswer{Alternatives: candidates(sel.Alternatives), Sure: sel.Sure, Abstained: sel.Abstained, By: sel.By}
		if t == nil {
			answer.Alternatives = answer.Alternatives[:min(len(answer.Alternatives), maxNearest)]
			fmt.Fprintln(env.stderr, verdict(true, len(sel.Alternatives) > 0))
			return printRouted(env, answer, &exitError{code: exitNoTool})
		}
		answer.Tool, answer.Score, answer.Confidence = t.ID, sel.Score, sel.Confidence
		answer.Places, answer.Ambiguous = serversOf(sel.Places), routed.Ambiguous
		switch {
		case o.dryRun:
			return printRouted(env, answer, nil)
		case !routed.Ran:
			if answer.Missing = routed.Missing; len(answer.Missing) > 0 {
				answer.Example = example.Arguments(t.InputSchema, routed.Arguments)
			}
			return printRouted(env, answer, &exitError{exitFailed, whyNotRun(routed, answer.Places, o.yes)})
		}
		answer.Result = routed.Result.JSON
		if routed.Result.IsError {
			return printRouted(env, answer, &exitError{code: exitFailed})
		}
		return printRouted(env, answer, nil)
	})
}

// whyNotRun says all that the call lacks, and what to write instead.
func whyNotRun(routed selector.Routed, places []string, yes bool) error {
	t := routed.Selection.Tool
	var reasons []string
	if len(routed.Missing) > 0 {
		reasons = append(reasons, "it needs the arguments "+strings.Join(routed.Missing, ", "))
	}
	if routed.Ambiguous {
		reasons = append(reasons, fmt.Sprintf("several servers have this tool (%s), and neither the task nor the arguments say which one is meant; name the server in the task, or run it with 'metarouter call %s'",
			strings.Join(places, ", "), t.ID))
	}
	permission := ""
	if !yes {
		for _, reason := range []string{routed.Unsure, routed.Unsafe} {
			if reason != "" {
				reasons = append(reasons, reason)
				permission = "; --yes runs it all the same"
			}
		}
	}
	message := fmt.Sprintf("%s was not run: %s%s", t.ID, strings.Join(reasons, "; "), permission)
	if len(routed.Missing) > 0 {
		message += ". For example:\n  " + sampleCall(t, routed.Arguments)
	}
	return errors.New(message)
}

// printRouted prints the answer of route, and returns outcome, the error that decides
// the exit code. Where a result is printed, the tool's name goes to stderr.
func printRouted(env *environment, r routeAnswer, outcome error) error {
	if env.json {
		if err := env.printJSON(r); err != nil {
			return err
		}
		return outcome
	}
	if r.Result != nil {
		env.note("%s (confidence %s)", r.Tool, shownConfidence(r.Confidence))
		if err := printResult(env, r.Result); err != nil {
			return err
		}
		return outcome
	}
	if r.Tool != "" {
		env.say("%4s  %s%s", shownConfidence(r.Confidence), r.Tool, alsoOn(r.Places))
	}
	for _, c := range r.Alternatives {
		env.say("%4s  %s%s  %s", shownConfidence(c.Confidence), c.ID, alsoOn(c.Places), summary(c.Description))
	}
	return outcome
}

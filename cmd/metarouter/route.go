package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mcp-metarouter/metarouter/adapter"
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
	cmd.Flags().BoolVar(&o.yes, "yes", false, "Run the tool even if it may change or destroy something, or fits the task only weakly. By default such a tool is named and not run.")
	return cmd
}

// A routeAnswer is what route prints as JSON.
type routeAnswer struct {
	Tool         string          `json:"tool"`
	Score        float64         `json:"score"`
	Confidence   float64         `json:"confidence"`
	Places       []string        `json:"places,omitempty"`    // servers that have the same tool, that of Tool first
	Ambiguous    bool            `json:"ambiguous,omitempty"` // nothing says which server is meant
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
			return fmt.Errorf("call %s: %w", t.ID, err)
		}
		answer := routeAnswer{Alternatives: candidates(sel.Alternatives)}
		if t == nil {
			fmt.Fprintln(env.stderr, noFit(sel.Alternatives))
			return printRouted(env, answer, &exitError{code: exitNoTool})
		}
		answer.Tool, answer.Score, answer.Confidence = t.ID, sel.Score, sel.Confidence
		answer.Places, answer.Ambiguous = serversOf(sel.Places), routed.Ambiguous
		switch {
		case o.dryRun:
			return printRouted(env, answer, nil)
		case len(routed.Missing) > 0:
			return printRouted(env, answer, &exitError{exitFailed, fmt.Errorf("%s was not run: it needs the arguments %s; add --args '{%s}'. Its schema: %s",
				t.ID, strings.Join(routed.Missing, ", "), blanks(routed.Missing), t.InputSchema)})
		case routed.Ambiguous:
			return printRouted(env, answer, &exitError{exitFailed, fmt.Errorf("%s was not run: several servers have this tool (%s), and neither the task nor the arguments say which one is meant; name the server in the task, or run it with 'metarouter call %s'",
				t.ID, strings.Join(answer.Places, ", "), t.ID)})
		case !routed.Ran:
			return printRouted(env, answer, &exitError{exitFailed, fmt.Errorf("%s was not run: %s; run it with --yes", t.ID, routed.Unsafe)})
		}
		answer.Result = routed.Result.JSON
		if routed.Result.IsError {
			return printRouted(env, answer, &exitError{code: exitFailed})
		}
		return printRouted(env, answer, nil)
	})
}

// blanks returns the members of a JSON object whose values are still to be written.
func blanks(keys []string) string {
	members := make([]string, len(keys))
	for i, key := range keys {
		members[i] = strconv.Quote(key) + ": …"
	}
	return strings.Join(members, ", ")
}

// printRouted prints the answer of route, and returns verdict, the error that decides
// the exit code. Where a result is printed, the tool's name goes to stderr.
func printRouted(env *environment, r routeAnswer, verdict error) error {
	if env.json {
		if err := env.printJSON(r); err != nil {
			return err
		}
		return verdict
	}
	if r.Result != nil {
		fmt.Fprintf(env.stderr, "%s (confidence %.2f)\n", r.Tool, r.Confidence)
		if err := printResult(env, r.Result); err != nil {
			return err
		}
		return verdict
	}
	if r.Tool != "" {
		fmt.Fprintf(env.stdout, "%.2f  %s%s\n", r.Confidence, r.Tool, alsoOn(r.Places))
	}
	for _, c := range r.Alternatives {
		fmt.Fprintf(env.stdout, "%.2f  %s%s  %s\n", c.Confidence, c.ID, alsoOn(c.Places), summary(c.Description))
	}
	return verdict
}

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mcp-metarouter/metarouter/adapter"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/exit"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/oneshot"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/toolargs"
	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/example"
	"github.com/mcp-metarouter/metarouter/internal/lazy"
	"github.com/mcp-metarouter/metarouter/registry"
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
	cmd := newCommand("route TASK [KEY=VALUE …]", "Pick the best tool for a task and run it",
		`  metarouter route "convert 5 kilometers to miles" value=5 from_unit=km to_unit=mi
  metarouter route "convert 5 kilometers to miles" --args '{"value":5,"from_unit":"km","to_unit":"mi"}'
  metarouter route "take a screenshot" -c browser -c screenshot --dry-run`,
		arguments(1, -1, `write the task in words, such as "convert 5 km to miles"`), func(ctx context.Context, args []string) error {
			words, pairs := splitPairs(args)
			return runRoute(ctx, env, strings.Join(words, " "), pairs, o)
		})
	cmd.Long = `Picks the best tool for a task, and runs it if that is safe; see --yes.

TASK is words. KEY=VALUE after them, in an argument of its own, is an argument of the
tool, as in 'metarouter call': VALUE is JSON, or plain text, which needs no quotes. Pairs
are added to the object of --args; where both have a key, the pair is used.`
	addJSONFlag(cmd, env.Console)
	addProfileFlag(env, cmd)
	addArgsFlag(cmd, &o.args)
	addCapabilityFlag(cmd, &o.capabilities, preferTags)
	cmd.Flags().BoolVar(&o.dryRun, "dry-run", false, "Show which tool would be picked, and run nothing. By default the tool runs if that is safe; see --yes.")
	cmd.Flags().BoolVar(&o.yes, "yes", false, "Run the tool even if it may change or destroy something, if the confidence is below routeThreshold, or if a profile asks first. By default such a tool is named and not run; where a profile asks first, you are asked on the terminal.")
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

	picked *candidate // Tool; nil if no tool was picked
}

// isPair matches KEY=VALUE.
var isPair = lazy.Regexp(`^[A-Za-z_][A-Za-z0-9_-]*=`)

// splitPairs returns the words of the task, and the KEY=VALUE arguments behind the first word.
func splitPairs(args []string) (words, pairs []string) {
	for i, arg := range args {
		if i > 0 && isPair().MatchString(arg) {
			pairs = append(pairs, arg)
		} else {
			words = append(words, arg)
		}
	}
	return words, pairs
}

func runRoute(ctx context.Context, env *environment, task string, pairs []string, o routeOptions) error {
	if strings.TrimSpace(task) == "" {
		return exit.Usage(errors.New(`the task is empty; write it in words: metarouter route "convert 5 km to miles"`))
	}
	object, err := readArguments(env, o.args)
	if err != nil {
		return err
	}
	arguments, err := toolargs.Merge(nil, object, pairs) // as far as can be said before a tool is picked
	if err != nil {
		return exit.Usage(err)
	}
	withTypes := func(_ context.Context, t *registry.NormalizedTool, _ json.RawMessage, _ bool) (json.RawMessage, bool) {
		typed, err := toolargs.Merge(t.InputSchema, object, pairs)
		if err != nil {
			typed = arguments
		}
		return typed, false
	}
	c, done, err := loadOrAsk(ctx, env, false)
	if err != nil || done {
		return err
	}
	return withScope(ctx, env, c, withRouterForCalls, func(ctx context.Context, r *adapter.Scope, c config.Config) error {
		if err := oneshot.AwaitTools(ctx, env.Console, r); err != nil {
			return err
		}
		client := &lonelyClient{person: personFor(env, o.yes)}
		routed, err := selector.Route(ctx, r, selector.RouteRequest{
			Query:     selector.Query{Task: task, Capabilities: o.capabilities, Assistant: r.Assistant()},
			Call:      selector.Call{Arguments: arguments, Client: "metarouter route", From: client},
			DryRun:    o.dryRun,
			Threshold: c.Router.RouteThreshold,
			RunUnsure: o.yes,
			RunUnsafe: o.yes,
			Fill:      withTypes,
		})
		t := routed.Selection.Tool
		if err != nil && t == nil {
			return err
		}
		if t != nil {
			defer client.explain(env, t.ID, t.Server, routed.Result.JSON, err)
		}
		notePartial(env, routed.Selection.Partial)
		if err != nil {
			return fmt.Errorf("call %s: %w", t.ID, oneLine{err})
		}
		return answerRoute(ctx, env, r, routed, o)
	})
}

// answerRoute prints what became of the task.
func answerRoute(ctx context.Context, env *environment, r selector.Provider, routed selector.Routed, o routeOptions) error {
	sel, t := routed.Selection, routed.Selection.Tool
	answer := routeAnswer{Alternatives: candidates(sel.Alternatives), Sure: sel.Sure, Abstained: sel.Abstained, By: sel.By}
	if t == nil {
		answer.Alternatives = answer.Alternatives[:min(len(answer.Alternatives), maxNearest)]
		fmt.Fprintln(env.Err, verdict(true, len(sel.Alternatives) > 0))
		return printRouted(env, answer, &exit.Error{Code: exit.NoTool})
	}
	answer.Tool, answer.Score, answer.Confidence = t.ID, sel.Score, sel.Confidence
	answer.Places, answer.Ambiguous = serversOf(sel.Places), routed.Ambiguous
	answer.picked = &candidate{ID: t.ID, Description: t.Description, Capabilities: t.Capabilities, Confidence: sel.Confidence, Places: answer.Places}
	if !sel.Sure && !routed.Ran {
		fmt.Fprintln(env.Err, verdict(false, true))
	}
	switch {
	case o.dryRun:
		return printRouted(env, answer, nil)
	case !routed.Ran:
		args := toolargs.Fitting(ctx, r, t, routed.Arguments)
		if answer.Missing = routed.Missing; len(answer.Missing) > 0 {
			answer.Example = example.Arguments(t.InputSchema, args)
		}
		return printRouted(env, answer, &exit.Error{Code: exit.Failed, Err: whyNotRun(routed, answer.Places, o.yes, args)})
	}
	answer.Result = routed.Result.JSON
	switch {
	case notApproved(routed.Result.Err) != nil && !env.JSON:
		return notApproved(routed.Result.Err)
	case len(routed.Result.Mismatch) > 0 && !env.JSON:
		env.Note("%s (confidence %s)", answer.Tool, shownConfidence(answer.Confidence))
		return &exit.Error{Code: exit.Failed, Err: mismatchError(ctx, r, t, routed.Arguments, routed.Result.Mismatch)}
	case routed.Result.IsError:
		err := printRouted(env, answer, &exit.Error{Code: exit.Failed})
		noteSample(env, t, routed.Arguments)
		return err
	}
	return printRouted(env, answer, nil)
}

// whyNotRun says all that the call lacks, and what to write instead. args are those that an
// example keeps. --yes is named only if it helps: not for a tool that is no sure match.
func whyNotRun(routed selector.Routed, places []string, yes bool, args json.RawMessage) error {
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
	switch {
	case !routed.Selection.Sure || routed.Ambiguous:
		permission = ""
	case permission != "" && len(routed.Missing) > 0:
		permission = fmt.Sprintf("; give %s, and add --yes", strings.Join(routed.Missing, ", "))
	}
	message := fmt.Sprintf("%s was not run: %s%s", t.ID, strings.Join(reasons, "; "), permission)
	if len(routed.Missing) > 0 {
		message += ". For example:\n  " + toolargs.Sample(t, args)
	}
	return errors.New(message)
}

// printRouted prints the answer of route, and returns outcome, the error that decides
// the exit code. Where a result is printed, the tool's name goes to stderr.
func printRouted(env *environment, r routeAnswer, outcome error) error {
	if env.JSON {
		if err := env.PrintJSON(r); err != nil {
			return err
		}
		return outcome
	}
	if r.Result != nil {
		env.Note("%s (confidence %s)", r.Tool, shownConfidence(r.Confidence))
		if err := printResult(env, r.Result); err != nil {
			return err
		}
		return outcome
	}
	rows := r.Alternatives
	if r.picked != nil {
		rows = append([]candidate{*r.picked}, rows...)
	}
	if err := printCandidates(env, rows); err != nil {
		return err
	}
	return outcome
}

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mcp-metarouter/metarouter/adapter"
	"github.com/mcp-metarouter/metarouter/classify"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/exit"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/progress"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/terminal"
	"github.com/mcp-metarouter/metarouter/config"
)

func newClassifyCommand(env *environment) *cobra.Command {
	cmd := newCommand("classify TEXT", "Sort a text into one of the configured categories",
		`  metarouter classify "What is the derivative of x squared?"
  metarouter classify --config categories.example.json --json "Who built the pyramids?"`,
		arguments(1, -1, "write the text to classify"), func(ctx context.Context, args []string) error {
			return runClassify(ctx, env, strings.Join(args, " "))
		})
	addJSONFlag(cmd, env.Console)
	addProfileFlag(env, cmd)
	return cmd
}

func runClassify(ctx context.Context, env *environment, text string) error {
	if strings.TrimSpace(text) == "" {
		return exit.Usage(errors.New(`the text is empty; write at least one word: metarouter classify "TEXT"`))
	}
	c, done, err := loadOrAsk(ctx, env, false)
	if err != nil || done {
		return err
	}
	return withScope(ctx, env, c, withRouter, func(ctx context.Context, r *adapter.Scope, c config.Config) error {
		if k := c.Router.Classification; k != nil && k.Outside != nil && k.Outside.Server != "" {
			// The server may take longer to start than a classification may take.
			progress.ShowServers(env.Err, r, func() { r.Await(ctx, k.Outside.Server) })
		}
		o, err := r.Classifier().Classify(ctx, text)
		switch {
		case errors.Is(err, classify.ErrNoCategories):
			return err
		case err != nil:
			return exit.Usage(err)
		}
		if k := c.Router.Classification; k == nil || len(k.Categories) == 0 && k.Outside == nil {
			env.Note(`no categories are configured, so the tags of tools are the categories; write your own into "metarouter": {"classification": {"categories": [{"name": "…", "examples": ["…"]}]}}`)
		}
		if env.JSON {
			return env.PrintJSON(o)
		}
		return printOutcome(env, o)
	})
}

// shownCategories is the largest number of categories that are printed.
const shownCategories = 10

// printOutcome prints the category of the text, and the most probable categories.
func printOutcome(env *environment, o classify.Outcome) error {
	reasoning := "without reasoning"
	if o.UseReasoning {
		reasoning = "with reasoning"
	}
	env.Say("%s (confidence %.2f): model %s, %s", o.Category, o.Confidence, o.Model, reasoning)
	if o.Degraded {
		fmt.Fprintln(env.Err, "the other classification server does not answer, so the built-in classifier answered")
	}
	order := make([]int, len(o.Probabilities))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(o.Probabilities[j], o.Probabilities[i]) })
	var rows []terminal.Row
	for _, i := range order[:min(len(order), shownCategories)] {
		rows = append(rows, terminal.Row{{Text: fmt.Sprintf("%.3f", o.Probabilities[i])}, {Text: o.Categories[i]}})
	}
	return env.PrintRows(rows, nil)
}

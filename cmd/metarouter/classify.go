package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/mcp-metarouter/metarouter/adapter"
	"github.com/mcp-metarouter/metarouter/classify"
)

func (a *app) classify() *cobra.Command {
	return a.jsonFlag(leaf("classify TEXT", "Sort a text into one of the configured categories",
		`  metarouter classify "What is the derivative of x squared?"
  metarouter classify --config categories.example.json --json "Who built the pyramids?"`,
		cobra.MinimumNArgs(1), func(ctx context.Context, args []string) error {
			text := strings.Join(args, " ")
			c, err := a.load(ctx)
			if err != nil {
				return err
			}
			return a.with(ctx, c, func(ctx context.Context, r *adapter.Router) error {
				if k := c.Router.Classification; k != nil && k.Outside != nil && k.Outside.Server != "" {
					a.waiting(r, func() { r.Await(ctx, k.Outside.Server) }) // which may take longer than a classification
				}
				o, err := r.Classifier().Classify(ctx, text)
				switch {
				case errors.Is(err, classify.ErrNoCategories):
					return err
				case err != nil:
					return usage(err)
				case a.json:
					return a.printJSON(o)
				}
				return a.printOutcome(o)
			})
		}))
}

// shownCategories is how many of many categories are printed.
const shownCategories = 10

// printOutcome prints what the text was found to be, and the likeliest categories.
func (a *app) printOutcome(o classify.Outcome) error {
	reasoning := "without reasoning"
	if o.UseReasoning {
		reasoning = "with reasoning"
	}
	fmt.Fprintf(a.stdout, "%s (confidence %.2f): model %s, %s\n", o.Category, o.Confidence, o.Model, reasoning)
	if o.Degraded {
		fmt.Fprintln(a.stderr, "the outside classifier is down; this is the built-in one's answer")
	}
	order := make([]int, len(o.Probabilities))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(o.Probabilities[j], o.Probabilities[i]) })
	return a.table(func(w *tabwriter.Writer) {
		for _, i := range order[:min(len(order), shownCategories)] {
			fmt.Fprintf(w, "%.3f\t%s\n", o.Probabilities[i], o.Categories[i])
		}
	})
}

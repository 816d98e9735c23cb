package main

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/mcp-metarouter/metarouter/adapter"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/selector"
)

// maxAbove is how many of the tools that rank above are told of.
const maxAbove = 3

// features in plain words.
var features = map[string]string{
	selector.StepFeature.String():        "words in common",
	selector.CoverageFeature.String():    "how much of the task's words it covers",
	selector.MeaningFeature.String():     "its meaning",
	selector.StepMeaningFeature.String(): "its meaning for a part of the task",
	selector.UseFeature.String():         "what was called after such tasks before",
	selector.CategoryFeature.String():    "the category of the task",
}

// standing says where the tool ranks for the task, and why. A tool that is not offered,
// nil, ranks nowhere.
func standing(ctx context.Context, r *adapter.Router, t *registry.NormalizedTool, task string, w *answer) error {
	found, err := r.Find(ctx, selector.Query{Task: task, Limit: len(r.Tools()) + 1})
	if err != nil {
		return err
	}
	if found.Abstained {
		w.say("for %q, searches say that no tool fits: there is too little that speaks for any.", task)
	}
	at := -1
	for i, c := range found.Candidates {
		if c.Tool == t && t != nil {
			at = i
		}
	}
	if at < 0 {
		if t != nil {
			w.say("it is not among the %d candidates for %q: neither its words nor its meaning have anything to do with it.", len(found.Candidates), task)
		}
		return nil
	}
	shown := append(found.Candidates[:min(at, maxAbove):min(at, maxAbove)], found.Candidates[at])
	why, err := r.Explain(ctx, task, shown)
	if err != nil {
		return err
	}
	own := why[len(why)-1]
	w.Rank = new(at + 1)
	c := found.Candidates[at]
	w.say("for %q it ranks %s of %d candidates, with a score of %.2f and a confidence of %.2f.", task, ordinal(at+1), len(found.Candidates), c.Score, c.Confidence)
	if reason := own.Why(); reason != "" {
		w.say("what speaks for it: %s.", reason)
	}
	if shares := sharesOf(own); shares != "" {
		w.say("its score is made of %s.", shares)
	}
	if len(own.Missing) > 0 {
		w.say("words of the task that it lacks: %s.", strings.Join(own.Missing, ", "))
	}
	for i, above := range shown[:len(shown)-1] {
		w.say("above it is %s, with %.2f: %s.", above.Tool.ID, above.Score, cmp.Or(why[i].Why(), "its score is made of "+sharesOf(why[i])))
	}
	if more := at - maxAbove; more > 0 {
		w.say("and %d more are above it.", more)
	}
	return nil
}

// sharesOf says what a score is made of.
func sharesOf(e selector.Explanation) string {
	var parts []string
	for _, f := range e.Features {
		if f.Share >= 0.005 {
			parts = append(parts, fmt.Sprintf("%s (%.0f%%)", features[f.Name], 100*f.Share))
		}
	}
	return strings.Join(parts, ", ")
}

func ordinal(n int) string {
	switch {
	case n%100/10 == 1:
		return fmt.Sprintf("%dth", n)
	case n%10 == 1:
		return fmt.Sprintf("%dst", n)
	case n%10 == 2:
		return fmt.Sprintf("%dnd", n)
	case n%10 == 3:
		return fmt.Sprintf("%drd", n)
	}
	return fmt.Sprintf("%dth", n)
}

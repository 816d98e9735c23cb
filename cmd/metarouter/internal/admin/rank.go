package admin

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/mcp-metarouter/metarouter/adapter"
	"github.com/mcp-metarouter/metarouter/internal/prose"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/selector"
)

// rank says where the tool ranks for the task, and why. A tool that is not offered is
// nil, and has no rank.
func rank(ctx context.Context, r *adapter.Router, t *registry.NormalizedTool, task string, a *Reasons) error {
	found, err := r.Find(ctx, selector.Query{Task: task, Limit: len(r.Snapshot().Tools()) + 1})
	if err != nil {
		return err
	}
	switch {
	case found.Abstained:
		a.say("a search for %q answers that no tool fits, because the confidence of every tool is too low.", task)
	case !found.Sure:
		a.say("a search for %q answers that it is not sure, because the confidence of the first tool is below findThreshold, or that of the next is near it.", task)
	}
	at := -1
	for i, c := range found.Candidates {
		if t != nil && slices.Contains(c.IDs(), t.ID) {
			at = i
		}
	}
	if at < 0 {
		if t != nil {
			a.say("it is not one of the %s for %q: too few of its words fit the task, and its meaning is too far from the task.", prose.Count(len(found.Candidates), "candidate"), task)
		}
		return nil
	}
	c := found.Candidates[at]
	why, err := r.Explain(ctx, task, []selector.Candidate{c})
	if err != nil {
		return err
	}
	a.Rank = new(at + 1)
	a.say("for %q it ranks number %d of %s, with a score of %.2f and a confidence of %s.", task, at+1, prose.Count(len(found.Candidates), "candidate"), c.Score, Confidence(c.Confidence))
	if reason := why[0].Why(); reason != "" {
		a.say("what speaks for it: %s.", reason)
	}
	a.say("its score is made of %s.", Shares(why[0]))
	if len(why[0].Missing) > 0 {
		a.say("words of the task that the tool does not have: %s.", strings.Join(why[0].Missing, ", "))
	}
	if at > 0 {
		above := found.Candidates[0]
		a.say("the first is %s, with a score of %.2f; 'metarouter search --explain' says why.", above.Tool.ID, above.Score)
	}
	return nil
}

// Confidence returns a confidence as text. It is rounded down, as in the sentence that a
// confidence is below a threshold: 0.499 is not shown as 0.50.
func Confidence(confidence float64) string {
	return fmt.Sprintf("%.2f", math.Floor(100*confidence)/100)
}

// Shares returns the features that a score is made of, each with its share, or "nothing".
func Shares(e selector.Explanation) string {
	var parts []string
	for _, f := range e.Features {
		if f.Share >= 0.005 {
			parts = append(parts, fmt.Sprintf("%s (%.0f%%)", cmp.Or(f.Label, f.Name), 100*f.Share))
		}
	}
	return cmp.Or(strings.Join(parts, ", "), "nothing")
}

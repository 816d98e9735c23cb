package selector

import (
	"context"
	"slices"
	"strings"

	"github.com/mcp-metarouter/metarouter/internal/index"
	"github.com/mcp-metarouter/metarouter/internal/secret"
	"github.com/mcp-metarouter/metarouter/internal/usage"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/selector/internal/rank"
	"github.com/mcp-metarouter/metarouter/selector/internal/text"
)

// A Use is one call of a tool after a search for a task, from which the ranking learns.
type Use = usage.Use

// How much a tool that a search did not list must have to do with the task, so that a call of
// it teaches something. docs/decisions.md has the figures.
const (
	hardlyRelated  = 0.2
	clearlyRelated = 0.3
)

// Credit completes a use by the words of its task, for the store of uses. It decides what a call
// of a tool that the search did not list teaches: much if the tool has something to do with
// the task, nothing yet if only the moment of the call speaks for it, and otherwise nothing.
// It reports false for nothing.
func (s *Selector) Credit(ctx context.Context, u Use) (Use, bool) {
	u.Task = secret.HideSpoken(u.Task[:min(len(u.Task), text.MaxTask)], "…")
	t := text.Parse(u.Task)
	u.Words = useWords(t)
	if len(u.Words) == 0 || !u.Unlisted || u.Withdrawn {
		return u, len(u.Words) > 0
	}
	related, known := s.relatedness(ctx, u.Tool, t)
	if u.First {
		u.Guess = known && related < hardlyRelated
		return u, true
	}
	return u, related >= clearlyRelated
}

// relatedness returns how much the tool has to do with the task, in [0,1]: how near their
// meanings are, or the share of the task's words that the tool has, whichever is more.
// known is false if no word of the task is known, neither to a tool nor as an English one.
func (s *Selector) relatedness(ctx context.Context, tool string, t text.Task) (share float64, known bool) {
	c, err := s.index.Tools(ctx)
	if err != nil {
		return 0, true
	}
	found, ok := c.Snapshot.Tool(tool)
	if !ok {
		return 0, true
	}
	d, ok := c.Document(registry.Item{Tool: found})
	if !ok {
		return 0, true
	}
	t.Correct(c.Correct)
	for _, w := range t.Words {
		known = known || c.Knows(w.Text)
	}
	prior := rank.Prior{}
	if near := s.nearness(ctx, c.Within(nil), t); near != nil {
		prior.Nearness = near.of
	}
	ranked := rank.Rank(t, []*index.Document{d}, c, prior)[0]
	return max(ranked.Features[rank.MeaningFeature], ranked.Features[rank.StepMeaningFeature], ranked.Evidence[rank.CoveredEvidence]), known
}

// useWords returns the words of a task as they are looked up in the lessons: the words of
// the task, and the types of its values. "Open example.org" is like "Open example.net", but
// not like "Open a.csv".
func useWords(t text.Task) []string {
	words := slices.Clone(t.Text)
	for _, l := range t.Literals {
		words = append(words, strings.TrimSpace("<"+l.Type.String()+" "+l.Extension)+">")
	}
	return words
}

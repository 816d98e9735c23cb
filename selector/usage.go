package selector

import (
	"context"
	"slices"
	"strings"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/internal/index"
	"github.com/mcp-metarouter/metarouter/internal/secret"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/selector/internal/rank"
	"github.com/mcp-metarouter/metarouter/selector/internal/text"
	"github.com/mcp-metarouter/metarouter/selector/internal/usage"
)

// A Usage is what was learned from use: which tools were called after which tasks. It is
// an [Experience]. A nil Usage learns nothing.
type Usage = usage.Store

// A Use is one call of a tool after a search for a task, for [Usage].Record.
type Use = usage.Use

// OpenUsage returns what was learned under a configuration, whose key is config, and
// where it goes on learning: a file below the folder dir. With dir "" it keeps everything
// in memory.
func OpenUsage(dir, config string, log *zap.Logger) (*Usage, error) {
	return usage.Open(dir, config, log)
}

// ByUse reports whether the tool was selected because it was called after this task before.
func (s Selection) ByUse() bool { return s.Tool != nil && rank.ByUse(s.Features) }

// How much a tool that a search did not list must have to do with the task, so that a call of
// it teaches something. docs/decisions.md has the figures.
const (
	hardlyRelated  = 0.2
	clearlyRelated = 0.3
)

// Credit completes a use by the words of its task, for [Usage].Record. It decides what a call
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
	switch {
	case u.First:
		u.Guess = known && related < hardlyRelated
		return u, true
	default:
		return u, related >= clearlyRelated
	}
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

// useWords returns the words of a task as they are looked up in what was learned: those of
// the task, and the types of its values. "Open example.org" is like "Open example.net", but
// not like "Open a.csv".
func useWords(t text.Task) []string {
	words := slices.Clone(t.Text)
	for _, l := range t.Literals {
		words = append(words, strings.TrimSpace("<"+l.Type.String()+" "+l.Extension)+">")
	}
	return words
}

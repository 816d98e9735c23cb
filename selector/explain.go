package selector

import (
	"context"
	"fmt"

	"github.com/mcp-metarouter/metarouter/selector/internal/rank"
	"github.com/mcp-metarouter/metarouter/selector/internal/text"
)

// A Candidate is a tool and how well it suits a task: a Score that orders candidates, and
// a calibrated Confidence. Where a [Query] asks for other kinds, one of the fields Prompt,
// Resource, Template and Skill is set and Tool is nil.
type Candidate = rank.Candidate

// An Explanation is the composition of a candidate's score: the shares of features and of
// words. Why says the main reasons in words.
type Explanation = rank.Explanation

// Explain returns the composition of the scores of candidates that were found for a task.
func (s *Selector) Explain(ctx context.Context, task string, candidates []Candidate) ([]Explanation, error) {
	c, err := s.index.Tools(ctx)
	if err != nil {
		return nil, fmt.Errorf("explain: %w", err)
	}
	t := text.Parse(task)
	t.Correct(c.Correct)
	return rank.Explain(ctx, task, t, c, candidates), context.Cause(ctx)
}

// Reorder returns candidates of one task in the order that other weights of the features
// give, with the confidence that follows, for training. Differences of scores times
// sharpness are logarithms of odds.
func Reorder(candidates []Candidate, weights [rank.NumFeatures]float64, sharpness float64) []Candidate {
	return rank.Reorder(candidates, weights, sharpness)
}

package main

import (
	"context"
	"fmt"
	"sync"

	"github.com/mcp-metarouter/metarouter/internal/evaluation"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/selector"
)

const measuredLimit = 150 // candidates

// measure prints how well the program as it is finds the tools for all queries, by corpus, and
// the means over the corpora.
func (t *trainer) measure(ctx context.Context) error {
	fmt.Printf("%-16s %6s %6s %7s %6s\n", "", "R@1", "R@5", "nDCG@10", "MRR")
	var means []evaluation.Scores
	row := func(name string, s evaluation.Scores) {
		fmt.Printf("%-16s %6.3f %6.3f %7.3f %6.3f\n", name, s.Recall1, s.Recall5, s.NDCG10, s.MRR)
	}
	for _, c := range t.corpora {
		s, err := t.picker(ctx, c.tools)
		if err != nil {
			return err
		}
		scores := make([]evaluation.Scores, len(c.queries))
		for i := range c.queries {
			found, err := s.Find(ctx, selector.Query{Task: c.queries[i].Text, Limit: measuredLimit})
			if err != nil {
				return err
			}
			scores[i] = c.queries[i].Score(ids(found.Candidates))
		}
		if err := s.Close(); err != nil {
			return err
		}
		mean := evaluation.Mean(scores)
		row(c.name, mean)
		if c.name != smallest {
			means = append(means, mean)
		}
	}
	row("mean", evaluation.Mean(means))
	return nil
}

// picker returns a selector of the tools, which must be closed.
func (t *trainer) picker(ctx context.Context, tools []registry.NormalizedTool) (*selector.Selector, error) {
	offers := make(map[string]registry.Offer)
	for _, tool := range tools {
		o := offers[tool.Server]
		o.Tools = append(o.Tools, tool)
		offers[tool.Server] = o
	}
	r := registry.New()
	if _, err := r.ReplaceAll(offers); err != nil {
		return nil, err
	}
	var o selector.Options
	if !t.wordsOnly {
		var err error
		if o.Meanings, err = t.encodedOnce(ctx, tools); err != nil {
			return nil, err
		}
	}
	return selector.New(r, o), nil
}

var encodedTools sync.Map // what encodedOnce returns, by the first tool of a catalog

// encodedOnce returns the vectors of a catalog's tools, which several scenes may have.
func (t *trainer) encodedOnce(ctx context.Context, tools []registry.NormalizedTool) (selector.Meanings, error) {
	if m, ok := encodedTools.Load(&tools[0]); ok {
		return m.(selector.Meanings), nil
	}
	m, err := evaluation.Encoded(ctx, tools, t.vectors)
	if err == nil {
		encodedTools.Store(&tools[0], m)
	}
	return m, err
}

func ids(candidates []selector.Candidate) (all []string) {
	for _, c := range candidates {
		all = append(all, c.IDs()...)
	}
	return all
}

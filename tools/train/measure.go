package main

import (
	"context"
	"fmt"

	"github.com/mcp-metarouter/metarouter/selector"
	"github.com/mcp-metarouter/metarouter/test/evaluation"
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

func ids(candidates []selector.Candidate) (all []string) {
	for _, c := range candidates {
		all = append(all, c.IDs()...)
	}
	return all
}

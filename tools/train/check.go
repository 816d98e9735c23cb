package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/internal/vectors"
	"github.com/mcp-metarouter/metarouter/selector"
)

// A sighting is how the tools were ranked for a query, and on what grounds.
type sighting struct {
	query  *selector.Example
	found  []selector.Candidate
	scores selector.Scores
}

const sightLimit = 150

// evaluateAll ranks the tools for the queries of all corpora, each with the model of its fold,
// and with what was learned from use, unless experience is nil.
func evaluateAll(ctx context.Context, corpora []*corpus, model func(c *corpus, fold int) *vectors.Model, folds int, experience func(c *corpus, fold int) selector.Experience) (map[*corpus][]sighting, error) {
	seen := make(map[*corpus][]sighting)
	for _, c := range corpora {
		seen[c] = make([]sighting, len(c.queries))
		for fold := range folds {
			r, err := register(c.tools)
			if err != nil {
				return nil, err
			}
			options := selector.Options{Vectors: model(c, fold)}
			if experience != nil {
				options.Experience = experience(c, fold)
			}
			s := selector.New(r, options)
			for i := range c.queries {
				if c.fold[i]%folds != fold {
					continue
				}
				q := &c.queries[i]
				found, err := s.Find(ctx, selector.Query{Task: q.Text, Limit: sightLimit})
				if err != nil {
					return nil, err
				}
				seen[c][i] = sighting{q, found.Candidates, q.Score(ids(found.Candidates))}
			}
			s.Close()
		}
	}
	return seen, nil
}

// serversWithout returns the servers that the query does not need.
func (c *corpus) serversWithout(q *selector.Example) (others []string) {
	known := make(map[string]bool)
	for i := range c.tools {
		if server := c.tools[i].Server; !known[server] && !q.Needs(server) {
			known[server] = true
			others = append(others, server)
		}
	}
	return others
}

func ids(candidates []selector.Candidate) (all []string) {
	for _, c := range candidates {
		all = append(all, c.IDs()...)
	}
	return all
}

// report prints the scores by corpus, and their means over the corpora.
func report(title string, corpora []*corpus, seen map[*corpus][]sighting) {
	fmt.Printf("%s\n%-16s %6s %6s %7s %6s\n", title, "", "R@1", "R@5", "nDCG@10", "MRR")
	var means []selector.Scores
	row := func(name string, s selector.Scores) {
		fmt.Printf("%-16s %6.3f %6.3f %7.3f %6.3f\n", name, s.Recall1, s.Recall5, s.NDCG10, s.MRR)
	}
	for _, c := range corpora {
		var all []selector.Scores
		for _, s := range seen[c] {
			all = append(all, s.scores)
		}
		mean := selector.MeanScores(all)
		row(c.name, mean)
		if c.name != smallest {
			means = append(means, mean)
		}
	}
	row("mean", selector.MeanScores(means))
}

// smallest is a corpus too small to count in the mean.
const smallest = "mcpproxy-golden"

// check ranks queries of corpora with models that have not learned from them.
func (t *trainer) check(ctx context.Context) error {
	l, err := t.leaveOut()
	if err != nil {
		return err
	}
	for _, way := range []struct {
		title, file string
		model       func(c *corpus, fold int) *vectors.Model
		folds       int
		experience  func(c *corpus, fold int) selector.Experience
	}{
		{fmt.Sprintf("queries left out, in %d parts", t.folds), "parts", l.part, t.folds, nil},
		{"corpora left out", "corpora", l.apart, 1, nil},
		{"queries left out, the others having been asked before", "used", l.part, t.folds,
			func(c *corpus, fold int) selector.Experience { return past(c, fold, t.folds) }},
	} {
		seen, err := evaluateAll(ctx, t.corpora, way.model, way.folds, way.experience)
		if err != nil {
			return err
		}
		report(way.title, t.corpora, seen)
		if err := t.write(way.file, seen); err != nil {
			return err
		}
	}
	return nil
}

// A ranking is the tools that were found for a query, best first.
type ranking struct {
	ID     string   `json:"id"`
	Ranked []string `json:"ranked"`
}

// write keeps the rankings of each corpus in a file, for other programs to score.
func (t *trainer) write(what string, seen map[*corpus][]sighting) error {
	if t.rankings == "" {
		return nil
	}
	for c, all := range seen {
		var lines []byte
		for _, s := range all {
			line, err := json.Marshal(ranking{s.query.ID, ids(s.found)})
			if err != nil {
				return err
			}
			lines = append(append(lines, line...), '\n')
		}
		if err := os.WriteFile(filepath.Join(t.rankings, c.name+"."+what+".jsonl"), lines, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// past is the experience of someone who has asked the queries of the other folds
// and called the tools that they need.
func past(c *corpus, fold, folds int) selector.Experience {
	s, err := selector.OpenUsage("", c.name, zap.NewNop())
	if err != nil {
		panic(err) // there is no file
	}
	for i := range c.queries {
		if q := &c.queries[i]; c.fold[i]%folds != fold {
			for _, r := range q.Relevant {
				s.Record(selector.Use{Client: "someone", Words: taskWords(q), Tool: r.Server + ":" + r.Name})
			}
		}
	}
	return s
}

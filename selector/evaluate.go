package selector

import (
	"context"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/selector/internal/evaluation"
)

// An Example is a task and the tools that it needs, to measure how well tools are found.
// Score measures a ranking.
type Example = evaluation.Example

// Scores are the measures of a ranking, such as Recall1, each in [0,1], or their means.
type Scores = evaluation.Scores

// An Evaluation is how well, and how fast, tools were found for examples.
type Evaluation = evaluation.Report

// ReadExamples reads a file with an [Example] as JSON in each line: {"id", "query",
// "relevant": [{"server", "name"}]}. An error names file and line.
func ReadExamples(path string) ([]Example, error) { return evaluation.ReadExamples(path) }

// ReadCatalog reads files with a tool as JSON in each line: {"server", "name",
// "description", "input_schema"}. Tools that cannot be offered are left out and logged.
func ReadCatalog(log *zap.Logger, paths ...string) ([]registry.NormalizedTool, error) {
	return evaluation.ReadCatalog(log, paths...)
}

// MeanScores returns the means of all scores.
func MeanScores(all []Scores) Scores { return evaluation.Mean(all) }

// Evaluate ranks the tools for each example, and keeps at most limit tools of a ranking.
func Evaluate(ctx context.Context, tools []registry.NormalizedTool, examples []Example, limit int, log *zap.Logger) (e Evaluation, err error) {
	r, err := evaluation.Register(tools)
	if err != nil {
		return e, err
	}
	s := New(r, Options{Log: log})
	defer s.Close()
	if _, err := s.Find(ctx, Query{Task: "index"}); err != nil { // builds the index, which is not measured
		return e, err
	}
	scores, times := make([]Scores, len(examples)), make([]time.Duration, len(examples))
	for i := range examples {
		began := time.Now()
		found, err := s.Find(ctx, Query{Task: examples[i].Text, Limit: limit})
		if err != nil {
			return e, err
		}
		times[i] = time.Since(began)
		ranking := evaluation.Ranking{ID: examples[i].ID, Ranked: []string{}}
		for _, c := range found.Candidates {
			ranking.Ranked = append(ranking.Ranked, c.Tool.ID)
		}
		scores[i] = examples[i].Score(ranking.Ranked)
		e.Rankings = append(e.Rankings, ranking)
	}
	e.Tools, e.Examples, e.Scores = len(tools), len(examples), evaluation.Mean(scores)
	if slices.Sort(times); len(times) > 0 {
		e.Median, e.P99 = times[len(times)/2], times[len(times)*99/100]
	}
	return e, nil
}

package evaluation

import (
	"context"
	"errors"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/internal/encoder"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/selector"
)

// EvaluateTasks searches for the tools of each task, and says whether [selector.Route] would run one with
// the threshold.
func EvaluateTasks(ctx context.Context, catalogs []TaskCatalog, threshold float64, log *zap.Logger) (TaskReport, error) {
	var all []Outcome
	tools := 0
	for _, c := range catalogs {
		s, err := evaluated(ctx, c.Tools, "", log)
		if err != nil {
			return TaskReport{}, err
		}
		for _, t := range c.Tasks {
			found, err := s.Find(ctx, selector.Query{Task: t.Text})
			if err != nil {
				return TaskReport{}, errors.Join(err, s.Close())
			}
			all = append(all, outcome(c.Name, t, found, threshold))
		}
		if err := s.Close(); err != nil {
			return TaskReport{}, err
		}
		tools += len(c.Tools)
	}
	report := Summarize(all)
	report.Tools = tools
	return report, nil
}

// outcome compares the answer to a task with the tools that are right.
func outcome(catalog string, t Task, found selector.Ranking, threshold float64) Outcome {
	idle := found.Abstained || found.Candidates[0].Confidence < threshold
	o := Outcome{
		Catalog: catalog, ID: t.ID, Kind: t.Kind,
		Refused:    found.Abstained || !found.Sure,
		Idle:       idle,
		IdleOrHarm: idle,
	}
	if !idle {
		harmless, _ := selector.Harmless(found.Candidates[0].Tool)
		o.IdleOrHarm = !harmless
	}
	for i, c := range found.Candidates {
		o.Answer = append(o.Answer, c.Tool.ID)
		if o.Rank == 0 && slices.ContainsFunc(c.IDs(), func(id string) bool { return slices.Contains(t.Right, id) }) {
			o.Rank = i + 1
		}
	}
	if len(found.Candidates) > 0 {
		o.Confidence = found.Candidates[0].Confidence
	}
	if len(found.Candidates) > 1 {
		o.Next = found.Candidates[1].Confidence
	}
	return o
}

// evaluated returns a selector of the tools, after it has encoded them all. It keeps their vectors in the folder
// unless that is "".
func evaluated(ctx context.Context, tools []registry.NormalizedTool, folder string, log *zap.Logger) (*selector.Selector, error) {
	r, err := Register(tools)
	if err != nil {
		return nil, err
	}
	s := selector.New(r, selector.Options{Log: log, Vectors: encoder.OpenStore(encoder.Tool, folder)})
	if err := s.Encode(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// Evaluate ranks the tools for each example, and keeps at most limit tools of a ranking.
func Evaluate(ctx context.Context, tools []registry.NormalizedTool, examples []Example, limit int, log *zap.Logger) (e Report, err error) {
	s, err := evaluated(ctx, tools, "", log)
	if err != nil {
		return e, err
	}
	defer s.Close()
	if _, err := s.Find(ctx, selector.Query{Task: "index"}); err != nil { // builds the index, which is not measured
		return e, err
	}
	scores, times := make([]Scores, len(examples)), make([]time.Duration, len(examples))
	for i := range examples {
		began := time.Now()
		found, err := s.Find(ctx, selector.Query{Task: examples[i].Text, Limit: limit})
		if err != nil {
			return e, err
		}
		times[i] = time.Since(began)
		ranking := Ranking{ID: examples[i].ID, Ranked: []string{}}
		for _, c := range found.Candidates {
			ranking.Ranked = append(ranking.Ranked, c.IDs()...)
		}
		if limit > 0 {
			ranking.Ranked = ranking.Ranked[:min(len(ranking.Ranked), limit)]
		}
		scores[i] = examples[i].Score(ranking.Ranked)
		e.Rankings = append(e.Rankings, ranking)
	}
	e.Tools, e.Examples, e.Scores = len(tools), len(examples), Mean(scores)
	if slices.Sort(times); len(times) > 0 {
		e.Median, e.P99 = times[len(times)/2], times[len(times)*99/100]
	}
	return e, nil
}

package evaluation

import (
	"context"
	"errors"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/internal/embeddings"
	"github.com/mcp-metarouter/metarouter/internal/encoder"
	"github.com/mcp-metarouter/metarouter/internal/endpoint"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/selector"
)

// EvaluateTasks searches for the tools of each task, and says whether [selector.Route] would run one with
// the threshold. model may be nil.
func EvaluateTasks(ctx context.Context, catalogs []TaskCatalog, threshold float64, model embeddings.Model, log *zap.Logger) (TaskReport, error) {
	var all []Outcome
	tools := 0
	for _, c := range catalogs {
		s, err := evaluated(ctx, c.Tools, model, log)
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

// evaluated returns a selector of the tools with vectors by the model; nil is the one in the program.
func evaluated(ctx context.Context, tools []registry.NormalizedTool, model embeddings.Model, log *zap.Logger) (*selector.Selector, error) {
	r, err := Register(tools)
	if err != nil {
		return nil, err
	}
	m, err := encoded(ctx, r, model, "", log)
	return selector.New(r, selector.Options{Log: log, Meanings: m}), err
}

// Encoded returns the [selector.Meanings] of some tools by the model in the program, after the time that it
// takes to make the vectors: about 10 ms for each tool.
func Encoded(ctx context.Context, tools []registry.NormalizedTool, folder string) (selector.Meanings, error) {
	r, err := Register(tools)
	if err != nil {
		return nil, err
	}
	return encoded(ctx, r, nil, folder, zap.NewNop())
}

func encoded(ctx context.Context, r *registry.Registry, model embeddings.Model, folder string, log *zap.Logger) (selector.Meanings, error) {
	if model == nil {
		model = embeddings.Builtin()
	}
	set, err := embeddings.Open(model, folder).Build(ctx, embeddings.Tools(r.Snapshot().Tools()))
	return patient{model, set, log}, err
}

// A patient is a model without a deadline. It implements [selector.Meanings].
type patient struct {
	model embeddings.Model
	set   *embeddings.Set
	log   *zap.Logger
}

// Task implements [selector.Meanings].
func (p patient) Task(ctx context.Context, texts []string) ([]encoder.Vector, *embeddings.Set) {
	ask := p.model.Task
	if c, ok := p.model.(*endpoint.Client); ok {
		ask = c.Embed
	}
	all, err := ask(ctx, texts)
	if err != nil {
		p.log.Error("the embedding model has no vector for a task; it counts without", zap.Strings("task", texts), zap.Error(err))
		return nil, nil
	}
	return all, p.set
}

// Evaluate ranks the tools for each example, and keeps at most limit tools of a ranking. model
// may be nil.
func Evaluate(ctx context.Context, tools []registry.NormalizedTool, examples []Example, limit int, model embeddings.Model, log *zap.Logger) (e Report, err error) {
	s, err := evaluated(ctx, tools, model, log)
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

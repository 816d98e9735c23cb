package selector

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

// A TaskCatalog is the tools of recorded servers, and tasks in people's words with the tools
// that are right for them. The kind "none" is of tasks for which it has no tool.
type TaskCatalog = evaluation.TaskCatalog

// ReadTasks reads the files catalog, {"servers": [{"name", "list"}]}, and tasks, {"id",
// "kind", "task", "right": ["server:tool"]} in each line. The answer of a server to tools/list
// is the file LIST.json in the folder lists. An error names the file.
func ReadTasks(log *zap.Logger, catalog, tasks, lists string) (TaskCatalog, error) {
	return evaluation.ReadTasks(log, catalog, tasks, lists)
}

// A TaskEvaluation is how well the tools for tasks were found, by kind and by catalog.
type TaskEvaluation = evaluation.TaskReport

// EvaluateTasks searches for the tools of each task, and says what [Route] would do with
// the threshold. model may be nil.
func EvaluateTasks(ctx context.Context, catalogs []TaskCatalog, threshold float64, model embeddings.Model, log *zap.Logger) (TaskEvaluation, error) {
	var all []evaluation.Outcome
	tools := 0
	for _, c := range catalogs {
		s, err := evaluated(ctx, c.Tools, model, log)
		if err != nil {
			return TaskEvaluation{}, err
		}
		for _, t := range c.Tasks {
			found, err := s.Find(ctx, Query{Task: t.Text})
			if err != nil {
				return TaskEvaluation{}, errors.Join(err, s.Close())
			}
			all = append(all, outcome(c.Name, t, found, threshold))
		}
		if err := s.Close(); err != nil {
			return TaskEvaluation{}, err
		}
		tools += len(c.Tools)
	}
	report := evaluation.Summarize(all)
	report.Tools = tools
	return report, nil
}

// outcome compares the answer to a task with the tools that are right.
func outcome(catalog string, t evaluation.Task, found Ranking, threshold float64) evaluation.Outcome {
	chosen := found.selection()
	idle := chosen.Tool == nil || chosen.Confidence < threshold
	o := evaluation.Outcome{
		Catalog: catalog, ID: t.ID, Kind: t.Kind,
		Refused:    found.Abstained || !found.Sure,
		Idle:       idle,
		IdleOrHarm: idle,
	}
	if !idle {
		harmless, _ := Harmless(chosen.Tool)
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

// MeanScores returns the means of all scores.
func MeanScores(all []Scores) Scores { return evaluation.Mean(all) }

// evaluated returns a selector of the tools with vectors by the model; nil is the one in the program.
func evaluated(ctx context.Context, tools []registry.NormalizedTool, model embeddings.Model, log *zap.Logger) (*Selector, error) {
	r, err := evaluation.Register(tools)
	if err != nil {
		return nil, err
	}
	m, err := encoded(ctx, r, model, log)
	return New(r, Options{Log: log, Meanings: m}), err
}

// Encoded returns the [Meanings] of some tools by the model in the program, after the time that it
// takes to make the vectors: about 10 ms for each tool.
func Encoded(ctx context.Context, tools []registry.NormalizedTool) (Meanings, error) {
	r, err := evaluation.Register(tools)
	if err != nil {
		return nil, err
	}
	return encoded(ctx, r, nil, zap.NewNop())
}

func encoded(ctx context.Context, r *registry.Registry, model embeddings.Model, log *zap.Logger) (Meanings, error) {
	if model == nil {
		model = embeddings.Builtin()
	}
	set, err := embeddings.Open(model, "").Build(ctx, embeddings.Tools(r.Snapshot().Tools()))
	return patient{model, set, log}, err
}

// A patient is a model without a deadline. It implements [Meanings].
type patient struct {
	model embeddings.Model
	set   *embeddings.Set
	log   *zap.Logger
}

// Task implements [Meanings].
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
func Evaluate(ctx context.Context, tools []registry.NormalizedTool, examples []Example, limit int, model embeddings.Model, log *zap.Logger) (e Evaluation, err error) {
	s, err := evaluated(ctx, tools, model, log)
	if err != nil {
		return e, err
	}
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
			ranking.Ranked = append(ranking.Ranked, c.IDs()...)
		}
		if limit > 0 {
			ranking.Ranked = ranking.Ranked[:min(len(ranking.Ranked), limit)]
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

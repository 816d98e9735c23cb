package selector

import (
	"cmp"
	"context"
	"math"
	"slices"

	"github.com/mcp-metarouter/metarouter/internal/embeddings"
	"github.com/mcp-metarouter/metarouter/internal/encoder"
	"github.com/mcp-metarouter/metarouter/internal/index"
	"github.com/mcp-metarouter/metarouter/selector/internal/rank"
	"github.com/mcp-metarouter/metarouter/selector/internal/text"
)

// Meanings knows vectors of sentences.
type Meanings interface {
	// Task returns the vectors of a task and its steps, and the tools' vectors, or nil for both
	// if it has them not, or not in time.
	Task(ctx context.Context, texts []string) ([]encoder.Vector, *embeddings.Set)
}

// [rank.Nearness] has the scale of the cosines of the model in the program: their mean for a
// task and tools, and their deviation from it. Models differ: some have 0.8 for two texts that have
// nothing in common.
const (
	meanNearness      = 0.04
	nearnessDeviation = 0.14
	leastDeviation    = 0.001 // of the cosines of a model that can tell tools apart
	leastEncoded      = 0.9   // the share of the tools that must have a vector
)

// maxSentences bounds the vectors that are made of a task: of the whole and of its first steps.
const maxSentences = 9

// A nearness says how near tools are to a task and its steps by the vectors of Meanings.
type nearness struct {
	set             *embeddings.Set
	cosines         [][]float32 // of the task, and then of each step, with the tools of the set
	mean, deviation float64     // of the cosines of the whole task
}

// nearness returns how near the tools are to the task. It is nil if there are no vectors, or if they
// can't tell the tools apart.
func (s *Selector) nearness(ctx context.Context, tools index.Subset, t text.Task) *nearness {
	if s.meanings == nil || len(t.Words) == 0 {
		return nil
	}
	texts := []string{t.Raw}
	if len(t.Steps) > 1 {
		for _, step := range t.Steps[:min(len(t.Steps), maxSentences-1)] {
			texts = append(texts, step.Plain)
		}
	}
	all, set := s.meanings.Task(ctx, texts)
	if len(all) != len(texts) || set == nil {
		return nil
	}
	n := &nearness{set, set.Cosines(all), meanNearness, nearnessDeviation}
	if n.cosines == nil {
		return nil
	}
	count, sum, squares := 0.0, 0.0, 0.0
	for _, d := range tools.All {
		if i, ok := set.Number(d.Tool.ID); ok {
			x := float64(n.cosines[0][i])
			count++
			sum += x
			squares += float64(x * x) // the conversion keeps compilers from fusing
		}
	}
	if count < leastEncoded*float64(tools.Len()) {
		return nil // those that have no vector yet would come last
	}
	if embeddings.IsBuiltin(set.Model) {
		return n
	}
	n.mean = sum / max(1, count)
	n.deviation = math.Sqrt(max(0, squares/max(1, count)-float64(n.mean*n.mean)))
	if n.deviation < leastDeviation {
		return nil
	}
	return n
}

// of returns how near a tool is, on the scale of the model in the program: for most tasks, nearly all
// tools have nothing to do with them, and so their cosines show the scale of another model. A tool
// without a vector is as near as the mean.
func (n *nearness) of(d *index.Document) rank.Nearness {
	whole, step := n.mean, n.mean
	if i, ok := n.set.Number(d.Tool.ID); ok {
		whole = float64(n.cosines[0][i])
		step = whole
		for k, of := range n.cosines[1:] {
			if x := float64(of[i]); k == 0 || x > step {
				step = x
			}
		}
	}
	return rank.Nearness{Whole: n.scaled(whole), Step: n.scaled(step)}
}

func (n *nearness) scaled(x float64) float64 {
	return min(1, max(0, meanNearness+float64(nearnessDeviation*(x-n.mean)/n.deviation)))
}

// nearest returns the documents that request admits and that are nearer to the task or a step of it
// than the mean of all, the nearest first; the nearest one if there are no such documents.
func (n *nearness) nearest(request index.Query) []*index.Document {
	type near struct {
		document *index.Document
		cosine   float32
	}
	var best []near
	shorten := func() {
		slices.SortStableFunc(best, func(a, b near) int { return cmp.Compare(b.cosine, a.cosine) })
		best = best[:min(len(best), maxNearest)]
	}
	least := float32(math.Inf(-1)) // only nearer ones can be among the best
	for _, d := range request.Within.All {
		cosine := float32(n.mean)
		if i, ok := n.set.Number(d.Tool.ID); ok {
			cosine = n.cosines[0][i]
			for _, of := range n.cosines[1:] {
				cosine = max(cosine, of[i])
			}
		}
		if cosine <= least || !request.Admits(d) {
			continue
		}
		if best = append(best, near{d, cosine}); len(best) == 4*maxNearest {
			shorten()
			least = best[maxNearest-1].cosine
		}
	}
	shorten()
	var all []*index.Document
	for i, b := range best {
		if i == 0 || b.cosine > float32(n.mean) {
			all = append(all, b.document)
		}
	}
	return all
}

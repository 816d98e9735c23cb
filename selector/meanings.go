package selector

import (
	"cmp"
	"context"
	"math"
	"slices"

	"github.com/mcp-metarouter/metarouter/internal/embeddings"
	"github.com/mcp-metarouter/metarouter/internal/index"
	"github.com/mcp-metarouter/metarouter/internal/vectors"
	"github.com/mcp-metarouter/metarouter/selector/internal/rank"
	"github.com/mcp-metarouter/metarouter/selector/internal/text"
)

// Meanings knows vectors of sentences.
type Meanings interface {
	// Task returns the vectors of a task and its steps, and those of the tools, or nil for both
	// if it has them not, or not in time.
	Task(ctx context.Context, texts []string) ([]vectors.Vector, *embeddings.Set)
}

// The scale of [rank.Nearness]: the mean for a task and tools, and their deviation from it.
// Models differ: some have 0.8 for two texts that have nothing in common.
const (
	meanNearness      = 0.03
	nearnessDeviation = 0.11
	leastDeviation    = 0.001 // of the cosines of a model that can tell tools apart
)

// maxSentences bounds the vectors that are made of a task: of the whole and of its first steps.
const maxSentences = 5

// nearness returns how near the tools are to the task by the vectors of Meanings, on one scale for
// all models: for most tasks, nearly all tools have nothing to do with them, and so their cosines
// show the model's own scale. A tool without a vector is as near as the mean. It is nil if there
// are no vectors, or if they can't tell the tools apart.
func (s *Selector) nearness(ctx context.Context, tools index.Subset, t text.Task) map[*index.Document]rank.Nearness {
	if s.meanings == nil || len(t.Words) == 0 {
		return nil
	}
	texts := []string{t.Plain}
	if len(t.Steps) > 1 {
		for _, step := range t.Steps[:min(len(t.Steps), maxSentences-1)] {
			texts = append(texts, step.Plain)
		}
	}
	all, set := s.meanings.Task(ctx, texts)
	if len(all) != len(texts) || set == nil {
		return nil
	}
	near, mean, deviation := cosines(tools, all, set)
	if deviation < leastDeviation {
		return nil
	}
	scaled := func(x float64) float64 {
		return min(1, max(0, meanNearness+float64(nearnessDeviation*(x-mean)/deviation)))
	}
	for _, d := range tools.All {
		x, ok := near[d]
		if !ok { // it is not encoded yet
			x = rank.Nearness{Whole: mean, Step: mean, Cosine: mean}
		}
		x.Whole, x.Step = scaled(x.Whole), scaled(x.Step)
		if !set.Builtin { // the scale of its cosines is unknown
			x.Cosine = x.Whole
		}
		near[d] = x
	}
	return near
}

// cosines returns those of the tools that have a vector with the task, whose own vector is the first,
// and with its nearest step; the mean for the whole task, and their deviation from it.
func cosines(tools index.Subset, task []vectors.Vector, set *embeddings.Set) (near map[*index.Document]rank.Nearness, mean, deviation float64) {
	near = make(map[*index.Document]rank.Nearness, tools.Len())
	sum, squares := 0.0, 0.0
	for _, d := range tools.All {
		w := set.Tool(d.Tool.ID)
		if len(w) != len(task[0]) {
			continue
		}
		x := float64(task[0].Dot(w))
		step := x
		for i, v := range task[1:] {
			if c := float64(v.Dot(w)); i == 0 || c > step {
				step = c
			}
		}
		near[d] = rank.Nearness{Whole: x, Step: step, Cosine: x}
		sum += x
		squares += float64(x * x) // the conversion keeps compilers from fusing
	}
	n := float64(max(1, len(near)))
	mean = sum / n
	return near, mean, math.Sqrt(max(0, squares/n-float64(mean*mean)))
}

// nearestBy returns the documents that request admits and that are nearer to the task than the mean
// of all, the nearest first; the nearest one if none is.
func nearestBy(request index.Query, near map[*index.Document]rank.Nearness) []*index.Document {
	if near == nil {
		return nil
	}
	var all []*index.Document
	for _, d := range request.Within.All {
		if request.Admits(d) {
			all = append(all, d)
		}
	}
	slices.SortStableFunc(all, func(a, b *index.Document) int { return cmp.Compare(near[b].Whole, near[a].Whole) })
	n := 0
	for n < min(len(all), maxNearest) && (n == 0 || near[all[n]].Whole > meanNearness) {
		n++
	}
	return all[:n]
}

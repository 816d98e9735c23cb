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

// The scale of the built-in vectors: the mean of the cosines of a task and tools, and their
// deviation from it. Models differ: some have 0.8 for two texts that have nothing in common.
// The mean is lowered so that the confidence stays calibrated; both were measured with
// all-MiniLM-L6-v2.
const (
	meanNearness      = 0.03
	nearnessDeviation = 0.11
	leastDeviation    = 0.001 // of the cosines of a model that can tell tools apart
)

// maxSentences bounds the vectors that are made of a task: of the whole and of its first steps.
const maxSentences = 5

// nearness returns how near the tools are to the task by the vectors of Meanings, on the scale of
// the built-in vectors: for most tasks, nearly all tools have nothing to do with them, and so
// their cosines show the model's own scale. It is nil if there are no vectors, or if they can't
// tell the tools apart.
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
	near := make(map[*index.Document]rank.Nearness, tools.Len())
	sum, squares := 0.0, 0.0
	for _, d := range tools.All {
		w := set.Tool(d.Tool.ID)
		if len(w) != len(all[0]) {
			continue
		}
		x := rank.Nearness{Whole: float64(all[0].Dot(w))}
		x.Step = x.Whole
		for i, v := range all[1:] {
			if step := float64(v.Dot(w)); i == 0 || step > x.Step {
				x.Step = step
			}
		}
		near[d] = x
		sum += x.Whole
		squares += float64(x.Whole * x.Whole) // the conversion keeps compilers from fusing
	}
	n := float64(max(1, len(near)))
	mean := sum / n
	deviation := math.Sqrt(max(0, squares/n-float64(mean*mean)))
	if deviation < leastDeviation {
		return nil
	}
	scaled := func(x float64) float64 {
		return min(1, max(0, meanNearness+float64(nearnessDeviation*(x-mean)/deviation)))
	}
	for d, x := range near {
		near[d] = rank.Nearness{Whole: scaled(x.Whole), Step: scaled(x.Step)}
	}
	return near
}

// nearestBy returns the documents that request admits and that are nearest, as Nearest of
// [index.Collection] does by the built-in vectors.
func nearestBy(request index.Query, near map[*index.Document]rank.Nearness) []*index.Document {
	if near == nil {
		return nil
	}
	var all []*index.Document
	for _, d := range request.Within.All {
		if near[d].Whole > meanNearness && request.Admits(d) {
			all = append(all, d)
		}
	}
	slices.SortStableFunc(all, func(a, b *index.Document) int { return cmp.Compare(near[b].Whole, near[a].Whole) })
	return all[:min(len(all), maxNearest)]
}

package selector

import (
	"context"
	"slices"
	"sync"

	"github.com/mcp-metarouter/metarouter/internal/embeddings"
	"github.com/mcp-metarouter/metarouter/internal/index"
	"github.com/mcp-metarouter/metarouter/internal/vectors"
	"github.com/mcp-metarouter/metarouter/selector/internal/text"
)

// Meanings knows vectors of tasks and tools by another model than the built-in one.
type Meanings interface {
	// Task returns the vector of a task and the vectors of the tools, or nil for both if it
	// has them not, or not in time.
	Task(ctx context.Context, task string) (vectors.Vector, *embeddings.Set)
}

// A nearness says how near a tool's meaning is to the task's, on the scale of the built-in
// vectors; ok is false if that is not known.
type nearness = func(d *index.Document) (x float64, ok bool)

// nearness returns how near the tools are to the task by the vectors of Meanings; nil if there
// are none.
func (s *Selector) nearness(ctx context.Context, c *index.Collection, task string) nearness {
	if s.meanings == nil || task == "" {
		return nil
	}
	v, set := s.meanings.Task(ctx, task)
	if v == nil || set == nil {
		return nil
	}
	scale, ok := s.scales.of(c, set)
	if !ok {
		return nil
	}
	return func(d *index.Document) (float64, bool) {
		if d.Tool == nil {
			return 0, false
		}
		w := set.Tool(d.Tool.ID)
		if len(w) != len(v) {
			return 0, false
		}
		return min(1, max(0, scale.factor*float64(v.Dot(w))+scale.offset)), true
	}
}

// nearestBy returns the documents that request admits and that are nearest, as Nearest of
// [index.Collection] does by the built-in vectors.
func nearestBy(request index.Query, near nearness) []*index.Document {
	type one struct {
		*index.Document
		x float64
	}
	var all []one
	for _, d := range request.Within.All {
		if x, ok := near(d); ok && x > 0 && request.Admits(d) {
			all = append(all, one{d, x})
		}
	}
	slices.SortStableFunc(all, func(a, b one) int {
		switch {
		case a.x > b.x:
			return -1
		case a.x < b.x:
			return 1
		}
		return 0
	})
	found := make([]*index.Document, min(len(all), maxNearest))
	for i := range found {
		found[i] = all[i].Document
	}
	return found
}

// A scale turns cosines of one model into those that the built-in vectors would have. Models
// differ: some have 0.7 for two texts that have nothing in common.
type scale struct{ factor, offset float64 }

// scales has the scale of the vectors in use.
type scales struct {
	mu         sync.Mutex // guards what follows
	collection *index.Collection
	set        *embeddings.Set
	scale      scale
	ok         bool
}

func (s *scales) of(c *index.Collection, set *embeddings.Set) (scale, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.collection != c || s.set != set {
		s.collection, s.set = c, set
		s.scale, s.ok = scaleOf(c, set)
	}
	return s.scale, s.ok
}

// leastApart is how much nearer a description must be to its own tool than to another one, in the
// mean, for the vectors to be of use.
const leastApart = 0.02

// scaleOf compares both models on tasks whose right tools are known: each description is the task,
// and the tool that has it is the right one. ok is false if the vectors can't tell the tools
// apart.
func scaleOf(c *index.Collection, set *embeddings.Set) (s scale, ok bool) {
	var sample []*index.Document
	for _, d := range c.Documents() {
		if d.Tool != nil && set.Descriptions()[d.Tool.ID] != nil && set.Tool(d.Tool.ID) != nil {
			sample = append(sample, d)
		}
	}
	var right, wrong, builtinRight, builtinWrong float64 // sums of cosines
	for i, d := range sample {
		other := sample[(i+len(sample)/2)%len(sample)]
		task, builtin := set.Descriptions()[d.Tool.ID], c.Meaning(text.Parse(d.Tool.Description).Text)
		right += float64(task.Dot(set.Tool(d.Tool.ID)))
		wrong += float64(task.Dot(set.Tool(other.Tool.ID)))
		builtinRight += float64(builtin.Dot(d.Vector))
		builtinWrong += float64(builtin.Dot(other.Vector))
	}
	n := float64(len(sample))
	if len(sample) < 2 || (right-wrong)/n < leastApart {
		return s, false
	}
	s.factor = (builtinRight - builtinWrong) / (right - wrong)
	s.offset = (builtinRight - s.factor*right) / n
	return s, s.factor > 0
}

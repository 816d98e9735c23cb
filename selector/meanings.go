package selector

import (
	"cmp"
	"context"
	"errors"
	"math"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/encoder"
	"github.com/mcp-metarouter/metarouter/internal/index"
	"github.com/mcp-metarouter/metarouter/selector/internal/rank"
	"github.com/mcp-metarouter/metarouter/selector/internal/text"
)

const (
	maxEncoded    = 100_000                // items of a catalog that have vectors
	encodeTime    = 300 * time.Millisecond // the default of EncodeTime
	alwaysEncoded = 32                     // so many items without a vector are encoded, however long it takes
	maxSteps      = 8                      // of a long task that have vectors: its first
	gatherTime    = time.Second            // after a change, until the items are encoded in the background
)

// meanings has the vectors of the items of a registry.
type meanings struct {
	store         *encoder.Store
	patience      time.Duration           // of a search, see EncodeTime of Options
	tools, others atomic.Pointer[vectors] // of the newest collection
	begun         context.Context         // ends at the first search
	begin         context.CancelFunc
}

// vectors are the vectors of all items of a collection, in its order.
type vectors struct {
	of      *index.Collection
	matrix  *encoder.Matrix
	numbers map[*index.Document]int // their rows
}

func newMeanings(store *encoder.Store, patience time.Duration) *meanings {
	if store == nil {
		store = encoder.OpenStore(encoder.Tool, "")
	}
	m := &meanings{store: store, patience: patience}
	m.begun, m.begin = context.WithCancel(context.Background())
	return m
}

// of returns the vectors of a collection, after it has encoded the missing ones. It is nil if ctx ends first,
// or if the collection is empty or too large: then items are found by words.
func (m *meanings) of(ctx context.Context, c *index.Collection, processors int) *vectors {
	all, now := c.Documents(), &m.tools
	if len(all) == 0 || len(all) > maxEncoded {
		return nil
	} else if all[0].Tool == nil {
		now = &m.others
	}
	if v := now.Load(); v != nil && v.of == c {
		return v
	}
	v := &vectors{of: c, numbers: make(map[*index.Document]int, len(all))}
	rows := m.store.Vectors(ctx, sentences(c), processors, alwaysEncoded)
	for i, d := range all {
		if rows[i] == nil {
			return nil
		}
		v.numbers[d] = i
	}
	v.matrix = encoder.NewMatrix(rows)
	now.Store(v)
	return v
}

// sentences returns what the encoder reads of the items of a collection.
func sentences(c *index.Collection) []string {
	all := make([]string, len(c.Documents()))
	for i, d := range c.Documents() {
		all[i] = text.WithEnglish(d.Text)
	}
	return all
}

// Encode makes the vectors of all tools, prompts and resources, on one processor, and keeps them, also if ctx ends
// first. Searches are right without it, but go by words while many vectors are missing.
func (s *Selector) Encode(ctx context.Context) (err error) {
	var all []string
	for _, of := range []func(context.Context) (*index.Collection, error){s.index.Tools, s.index.Others} {
		c, failed := of(ctx)
		if failed != nil {
			err = failed
			break
		}
		all = append(all, sentences(c)...)
		s.meanings.of(ctx, c, 1)
	}
	return errors.Join(err, s.meanings.store.Save(all))
}

// nearness says how near items are to a task and to its steps.
type nearness struct {
	*vectors
	cosines [][]float32 // of the task, and then of each step, with the items
}

// nearness returns how near the items are to the task; nil if there are no vectors, or the encoder does not know the language.
func (s *Selector) nearness(ctx context.Context, c *index.Collection, t text.Task) *nearness {
	s.meanings.begin()
	if t.Plain == "" || len(c.Documents()) == 0 {
		return nil
	}
	limited, cancel := context.WithTimeout(ctx, s.meanings.patience)
	defer cancel()
	v := s.meanings.of(limited, c, runtime.GOMAXPROCS(0))
	if v == nil {
		return nil
	}
	vectors := vectorsOf(t)
	if vectors[0].Dot(vectors[0]) == 0 {
		return nil
	}
	return &nearness{v, v.matrix.Dot(vectors)}
}

// vectorsOf returns the vectors of a task and, if it has several, of its steps: in their context if the encoder reads all
// of them, else of the first ones alone.
func vectorsOf(t text.Task) []encoder.Vector {
	m := encoder.Embedded()
	if len(t.Steps) < 2 {
		return []encoder.Vector{m.Encode(t.Plain, encoder.Task)}
	}
	steps := make([]string, len(t.Steps))
	for i, step := range t.Steps {
		steps[i] = step.Plain
	}
	all := m.EncodeParts(steps, encoder.Task)
	if len(all) > len(steps) {
		return all
	}
	alone := steps[:min(len(steps), maxSteps)]
	all = append(all[:1], make([]encoder.Vector, len(alone))...)
	var g sync.WaitGroup
	for i, step := range alone {
		g.Go(func() { all[1+i] = m.Encode(step, encoder.Task) })
	}
	g.Wait()
	return all
}

// of returns how near an item is.
func (n *nearness) of(d *index.Document) rank.Nearness {
	i := n.numbers[d]
	return rank.Nearness{Whole: max(0, float64(n.cosines[0][i])), Step: max(0, float64(n.nearestStep(i)))}
}

// nearestStep returns the cosine of item i and the step that is nearest to it.
func (n *nearness) nearestStep(i int) float32 {
	steps := n.cosines[min(1, len(n.cosines)-1):]
	best := steps[0][i]
	for _, of := range steps[1:] {
		best = max(best, of[i])
	}
	return best
}

// nearest returns the documents that request admits and that are nearest to the task or a step of it, the
// nearest first.
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
	for i, d := range request.Within.All {
		cosine := max(n.cosines[0][i], n.nearestStep(i))
		if cosine <= least || !request.Admits(d) {
			continue
		}
		if best = append(best, near{d, cosine}); len(best) == 4*maxNearest {
			shorten()
			least = best[maxNearest-1].cosine
		}
	}
	shorten()
	all := make([]*index.Document, len(best))
	for i, b := range best {
		all[i] = b.document
	}
	return all
}

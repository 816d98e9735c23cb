package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/mcp-metarouter/metarouter/internal/index"
	"github.com/mcp-metarouter/metarouter/internal/vectors"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/selector"
)

// A trainer trains word vectors on corpora.
type trainer struct {
	options
	corpora    []*corpus
	vocabulary *vocabulary
	hard       map[*corpus][][]string // by query: tools that words alone find
}

const (
	hardTools    = 25
	mostPairs    = 1500 // of one corpus in an epoch
	fewRepeats   = 3    // of the queries of a corpus that has few
	fewQueries   = 500
	fromName     = 0.35 // share of the pairs without a query that are made of names
	whole        = 0.7  // of the others, share where the tool loses all of its description
	leastSpan    = 3    // words of a description that stand for a task
	mostSpan     = 12
	minDescribed = 4
)

// findHard finds the tools that look right for a query by its words.
func (t *trainer) findHard(ctx context.Context) error {
	t.hard = make(map[*corpus][][]string)
	for _, c := range t.corpora {
		if !c.learned {
			continue
		}
		r, err := register(c.tools)
		if err != nil {
			return err
		}
		s := selector.New(r, selector.Options{Vectors: noVectors()})
		for i := range c.queries {
			found, err := s.Find(ctx, selector.Query{Task: c.queries[i].Text, Limit: hardTools})
			if err != nil {
				return err
			}
			var ids []string
			for _, candidate := range found.Candidates {
				ids = append(ids, candidate.IDs()...)
			}
			t.hard[c] = append(t.hard[c], ids)
		}
		s.Close()
	}
	return nil
}

// register returns a registry of the tools.
func register(tools []registry.NormalizedTool) (*registry.Registry, error) {
	offers := make(map[string]registry.Offer)
	for _, t := range tools {
		o := offers[t.Server]
		o.Tools = append(o.Tools, t)
		offers[t.Server] = o
	}
	r := registry.New()
	_, err := r.ReplaceAll(offers)
	return r, err
}

// An example is a query and the tools that it needs, as numbers.
type example struct {
	task        []counted
	right, hard []int
}

// A material is what a model learns from.
type material struct {
	tools    []text
	describe [][]string // by tool: the words of its description, in order
	examples [][]example
}

// gather takes the queries that may be used, and the tools of all corpora but
// those left out.
func (t *trainer) gather(use func(*corpus, int) bool, leaveOut func(*corpus, *registry.NormalizedTool) bool) *material {
	m := &material{}
	for _, c := range t.corpora {
		if !c.learned {
			continue
		}
		numbers := make(map[string]int)
		for i := range c.tools {
			tool := &c.tools[i]
			if leaveOut != nil && leaveOut(c, tool) {
				continue
			}
			numbers[tool.ID] = len(m.tools)
			m.tools = append(m.tools, t.vocabulary.text(tool))
			m.describe = append(m.describe, index.Words(tool.Description))
		}
		var examples []example
		for i := range c.queries {
			q := &c.queries[i]
			e := example{task: t.vocabulary.count(taskWords(q))}
			for _, r := range q.Relevant {
				if n, ok := numbers[r.Server+":"+r.Name]; ok {
					e.right = append(e.right, n)
				}
			}
			for _, id := range t.hard[c][i] {
				if n, ok := numbers[id]; ok && !slices.Contains(e.right, n) {
					e.hard = append(e.hard, n)
				}
			}
			if use(c, i) && len(e.task) > 0 && len(e.right) > 0 {
				examples = append(examples, e)
			}
		}
		m.examples = append(m.examples, examples)
	}
	return m
}

// pairs deals out the pairs of one epoch.
func (m *material) pairs(v *vocabulary, random *rand.Rand) (all []pair) {
	for _, examples := range m.examples {
		some := slices.Clone(examples)
		random.Shuffle(len(some), func(i, j int) { some[i], some[j] = some[j], some[i] })
		some = some[:min(len(some), mostPairs)]
		repeats := 1
		if len(some) < fewQueries {
			repeats = fewRepeats
		}
		for range repeats {
			for _, e := range some {
				right := e.right[random.IntN(len(e.right))]
				p := pair{task: e.task, tool: m.tools[right], id: right, other: -1}
				if len(e.hard) > 0 {
					p.other = e.hard[random.IntN(len(e.hard))]
					p.hard = m.tools[p.other]
				}
				all = append(all, p)
			}
		}
	}
	for i, tool := range m.tools {
		words := m.describe[i]
		without := slices.Clone(tool)
		switch {
		case random.Float64() < fromName && len(tool[index.NameField]) > 0:
			without[index.NameField] = nil
			all = append(all, pair{task: tool[index.NameField], tool: without, id: i, other: -1})
		case len(words) >= minDescribed:
			begin := random.IntN(max(1, len(words)-minDescribed))
			span := v.count(words[begin:min(len(words), begin+leastSpan+random.IntN(mostSpan-leastSpan+1))])
			if len(span) == 0 {
				continue
			}
			if random.Float64() < whole {
				without[index.DescriptionField] = nil
			} else {
				without[index.DescriptionField] = subtract(tool[index.DescriptionField], span)
			}
			all = append(all, pair{task: span, tool: without, id: i, other: -1})
		}
	}
	return all
}

func subtract(from, what []counted) (left []counted) {
	for _, w := range from {
		for _, x := range what {
			if x.word == w.word {
				w.times -= x.times
			}
		}
		if w.times > 0 {
			left = append(left, w)
		}
	}
	return left
}

// train learns from the queries that may be used.
func (t *trainer) train(use func(*corpus, int) bool, leaveOut func(*corpus, *registry.NormalizedTool) bool) *model {
	material := t.gather(use, leaveOut)
	m := newModel(t.vocabulary.start, t.vocabulary.weight, vectorFields)
	m.train(t.epochs, func(random *rand.Rand) []pair { return material.pairs(t.vocabulary, random) }, 1,
		func(epoch, pairs int, loss float64) {
			fmt.Printf("epoch %d: %d pairs, loss %.3f, sharpness %.1f\n", epoch, pairs, loss, exp(m.sharp))
		})
	return m
}

// encode returns the model as package vectors reads it.
func (t *trainer) encode(m *model) []byte {
	words := make([]vectors.Word, len(t.vocabulary.words))
	for i, word := range t.vocabulary.words {
		words[i] = vectors.Word{Text: word, Vector: scaled(m.vector[i], exp(m.weight[i])), Asked: exp(m.asked[i])}
	}
	fields := make([]float32, len(m.fields))
	for i, f := range m.fields {
		fields[i] = exp(f)
	}
	return vectors.Encode(words, fields)
}

func (t *trainer) model(use func(*corpus, int) bool, leaveOut func(*corpus, *registry.NormalizedTool) bool) (*vectors.Model, error) {
	return vectors.Decode(t.encode(t.train(use, leaveOut)))
}

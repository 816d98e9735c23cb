package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/gob"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/mcp-metarouter/metarouter/internal/vectors"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/selector"
)

// A trainer trains word vectors on corpora and rows.
type trainer struct {
	options
	corpora    []*corpus
	rows       []row
	vocabulary *vocabulary
	hard       map[*corpus][][]string // by query: tools that words alone find
	trained    *model                 // the base, once it is
}

// hardTools is the number of tools that look right for a query.
const hardTools = 25

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

// base returns a model that has learned from rows and from tools of which no query needs any,
// but not from rows of MCP servers: it can be trained on with whatever is not left out.
func (t *trainer) base() *model {
	if t.trained != nil {
		return t.trained
	}
	t.trained = newModel(t.vocabulary.start, t.vocabulary.weight, vectorFields, t.tuning)
	if !t.readBase() {
		asked := make(map[string]bool) // corpora with queries have these tools
		for _, c := range t.corpora {
			for i := range c.tools {
				asked[c.tools[i].ID] = asked[c.tools[i].ID] || c.name != "large"
			}
		}
		material := t.gather(selection{
			query:    func(*corpus, int) bool { return false },
			leaveOut: func(_ *corpus, tool *registry.NormalizedTool) bool { return asked[tool.ID] },
			row:      func(r *row) bool { return !r.ofMCP() },
		})
		t.stage("base", t.trained, material, t.tuning.Base)
		t.writeBase()
	}
	return t.trained
}

// baseFile is the parameters of the base, in the folder of -models.
const baseFile = "base.gob"

// A parameters is what a file has of a model.
type parameters struct {
	Words, Dim                          int
	Vector, Weight, Asked, Fields, Turn []float32
	Sharp                               float32
}

func (t *trainer) readBase() bool {
	if t.models == "" {
		return false
	}
	b, err := os.ReadFile(filepath.Join(t.models, baseFile))
	if err != nil {
		return false
	}
	var p parameters
	m := t.trained
	if gob.NewDecoder(bytes.NewReader(b)).Decode(&p) != nil || p.Words != len(m.weight) || p.Dim != m.dim {
		return false
	}
	m.vector, m.weight, m.asked, m.fields, m.turn, m.sharp = p.Vector, p.Weight, p.Asked, p.Fields, p.Turn, p.Sharp
	for i := range m.weight {
		m.rescale(i)
	}
	fmt.Println("the base is read from", t.models)
	return true
}

func (t *trainer) writeBase() {
	if t.models == "" {
		return
	}
	m := t.trained
	var b bytes.Buffer
	err := gob.NewEncoder(&b).Encode(parameters{len(m.weight), m.dim, m.vector, m.weight, m.asked, m.fields, m.turn, m.sharp})
	if err == nil {
		err = os.WriteFile(filepath.Join(t.models, baseFile), b.Bytes(), 0o644)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "the base is not kept:", err)
	}
}

// train learns from what is selected, after the base.
func (t *trainer) train(name string, s selection) *model {
	m := t.base().clone()
	t.stage(name, m, t.gather(s), t.tuning.Finish)
	return m
}

func (t *trainer) stage(name string, m *model, material *material, s stage) {
	material.share = s.Share
	m.train(s, material.pairs, 1, func(epoch, pairs int, loss float64) {
		fmt.Printf("%s, epoch %d: %d pairs, loss %.3f, sharpness %.1f\n", name, epoch, pairs, loss, exp(m.sharp))
	})
}

// usualSharpness is the sharpness of models whose tasks have vectors of length 1. The scalar
// product of a task and a tool is then the model's logit, in the same unit for each model.
const usualSharpness = 17

// encode returns the model as package vectors reads it.
func (t *trainer) encode(m *model) []byte {
	words := make([]vectors.Word, len(t.vocabulary.words))
	for i, word := range t.vocabulary.words {
		words[i] = vectors.Word{Text: word, Vector: scaled(m.of(m.vector, i)[:m.dim], m.scale[i]), Asked: exp(m.asked[i])}
	}
	fields := make([]float32, len(m.fields))
	for i, f := range m.fields {
		fields[i] = exp(f)
	}
	var turn []float32
	for i := 0; i < m.dim && m.tuning.TurnRate > 0; i++ {
		turn = append(turn, m.of(m.turn, i)[:m.dim]...)
	}
	shared := vectors.Shared{Fields: fields, Turn: turn, Length: exp(m.sharp) / usualSharpness}
	rotate(words, &shared, t.someTools(m))
	return vectors.Encode(words, shared)
}

// someTools returns the vectors of some tools.
func (t *trainer) someTools(m *model) (some [][]float32) {
	const every = 5
	m.batch.prepare([]pair{{other: -1}}, m.stride, len(m.fields))
	for _, c := range t.corpora {
		for i := 0; i < len(c.terms); i += every {
			m.forwardTool(0, t.vocabulary.text(c.terms[i]))
			some = append(some, slices.Clone(m.batch.tool[:m.dim]))
		}
	}
	return some
}

// model returns a model that learned from what is selected. If -models names a folder, the
// model is read from the file of that name in it, or written there.
func (t *trainer) model(name string, s selection) (*vectors.Model, error) {
	path := filepath.Join(t.models, name+".bin")
	if t.models != "" {
		b, err := os.ReadFile(path)
		if err == nil {
			fmt.Printf("model %s is read from %s\n", name, path)
			return vectors.Decode(string(b))
		}
		if !os.IsNotExist(err) {
			return nil, err
		}
	}
	b := t.encode(t.train(name, s))
	if t.models != "" {
		if err := os.WriteFile(path, b, 0o644); err != nil {
			return nil, err
		}
	}
	return vectors.Decode(string(b))
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }

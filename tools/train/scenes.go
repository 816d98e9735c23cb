package main

import (
	"context"
	"runtime"
	"slices"
	"strings"
	"sync"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/mcp-metarouter/metarouter/internal/encoder"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/selector"
	"github.com/mcp-metarouter/metarouter/test/evaluation"
)

// A scene is a catalog and its tasks.
type scene struct {
	ranks bool // weights of features are fitted to it; else only the confidence
	tools []registry.NormalizedTool
	asks  []ask
}

// noTool is the source of natural tasks for which the catalog has no tool.
const noTool = evaluation.NoTool

// An ask is a task that is asked of a catalog. In vain, if nothing in the catalog fits.
type ask struct {
	evaluation.Example
	source string
	vain   bool
}

// A sample is a task and the tools that were found for it.
type sample struct {
	Source      string
	Vain, Ranks bool
	Query       evaluation.Example
	Found       []selector.Candidate
}

const (
	foundLimit = 150 // candidates, of which the first and the right ones are kept
	keptLimit  = 60
)

// sampled searches for the tools of each ask of the scenes.
func (t *trainer) sampled(ctx context.Context, scenes []*scene) ([]sample, error) {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0))
	found := make([][]sample, len(scenes))
	for i, s := range scenes {
		group.Go(func() (err error) {
			found[i], err = t.sampledOf(ctx, s)
			return err
		})
	}
	err := group.Wait()
	return slices.Concat(found...), err
}

func (t *trainer) sampledOf(ctx context.Context, s *scene) (all []sample, err error) {
	picker, err := t.picker(ctx, s.tools)
	if err != nil {
		return nil, err
	}
	defer picker.Close()
	for _, a := range s.asks {
		found, err := picker.Find(ctx, selector.Query{Task: a.Text, Limit: foundLimit})
		if err != nil {
			return nil, err
		}
		var kept []selector.Candidate
		for i, c := range found.Candidates {
			if i < keptLimit || !a.vain && a.Score(c.IDs()).MRR > 0 {
				kept = append(kept, bare(c))
			}
		}
		all = append(all, sample{a.source, a.vain, s.ranks, a.Example, kept})
	}
	return all, nil
}

// bare returns a candidate with nothing of its tools but their IDs.
func bare(c selector.Candidate) selector.Candidate {
	of := func(t *registry.NormalizedTool) *registry.NormalizedTool {
		return &registry.NormalizedTool{ID: t.ID, Server: t.Server, Name: t.Name}
	}
	b := selector.Candidate{Tool: of(c.Tool), Score: c.Score, Features: c.Features, Evidence: c.Evidence, Confidence: c.Confidence}
	for _, t := range c.Places {
		b.Places = append(b.Places, of(t))
	}
	return b
}

// picker returns a selector of the tools, which must be closed.
func (t *trainer) picker(ctx context.Context, tools []registry.NormalizedTool) (*selector.Selector, error) {
	r, err := evaluation.Register(tools)
	if err != nil {
		return nil, err
	}
	s := selector.New(r, selector.Options{Vectors: storeOf(t.vectors)})
	return s, s.Encode(ctx)
}

var stores sync.Map // of vectors, by folder: one for all scenes

func storeOf(folder string) *encoder.Store {
	s, _ := stores.LoadOrStore(folder, encoder.OpenStore(encoder.Tool, folder))
	return s.(*encoder.Store)
}

// someQueries of a corpus are enough to fit a few numbers.
const someQueries = 300

// corpusScenes returns a part of the queries of each corpus.
func corpusScenes(corpora []*corpus) (all []*scene) {
	for _, c := range corpora {
		if c.name == smallest {
			continue
		}
		s := &scene{ranks: true, tools: c.tools}
		for _, i := range seeded(7).Perm(len(c.queries)) {
			if len(s.asks) < someQueries {
				s.asks = append(s.asks, ask{Example: c.queries[i], source: sourceOf(c.name, c.queries[i].ID)})
			}
		}
		all = append(all, s)
	}
	return all
}

// sourceOf returns the source of a query of a corpus. What agents asked for in the course of a task is a
// source of its own.
func sourceOf(corpus, id string) string {
	if corpus != "large" && (strings.HasPrefix(id, "lmb-route") || strings.HasPrefix(id, "lmb-step")) {
		return "substeps"
	}
	return corpus
}

// shared reports whether two sources have queries in common.
func shared(a, b string) bool {
	parts := []string{"substeps", "livemcpbench", "mcpbench"}
	return a == b || a == "large" && slices.Contains(parts, b) || b == "large" && slices.Contains(parts, a)
}

// sources returns samples of all sources.
func (t *trainer) sources(ctx context.Context) ([]sample, error) {
	log := zap.NewNop()
	natural, err := naturalScenes(log, t.natural, t.lists)
	if err != nil {
		return nil, err
	}
	siblings, err := naturalScenes(log, t.siblings, t.lists)
	if err != nil {
		return nil, err
	}
	servers, err := readPairs(t.train)
	if err != nil {
		return nil, err
	}
	apis, err := syntheticScenes(log, servers)
	if err != nil {
		return nil, err
	}
	scenes := slices.Concat(natural, siblings, apis, corpusScenes(t.corpora), smallScenes(t.corpora), strayScenes(natural, servers))
	return t.sampled(ctx, scenes)
}

package main

import (
	"context"
	"math/rand/v2"
	"runtime"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/mcp-metarouter/metarouter/internal/evaluation"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/selector"
)

// A scene is a catalog and what is asked of it.
type scene struct {
	origin string // where the tasks come from
	group  string // scenes of one group are left out together
	tools  []registry.NormalizedTool
	asks   []ask
}

// The origins of scenes.
const (
	fromNatural   = "natural"
	fromCorpora   = "corpora"
	fromSmall     = "small catalogs"
	fromSynthetic = "synthetic"
	fromStray     = "off topic" // parts of natural catalogs
)

// kindNone is the kind of tasks for which the catalog has no tool.
const kindNone = "none"

// An ask is a task that is asked of a catalog.
type ask struct {
	evaluation.Example
	kind    string   // [kindNone] if nothing in the catalog fits
	servers []string // if not empty, all that is there
}

// A sample is a task and what was found for it.
type sample struct {
	origin, group, kind string
	query               evaluation.Example
	found               []selector.Candidate
	weight              float64 // see balance
}

const (
	foundLimit = 150 // candidates, of which the first and the right ones are kept
	keptLimit  = 60
)

// sampledOf searches for the tools of each ask of a scene.
func (t *trainer) sampledOf(ctx context.Context, s *scene) ([]sample, error) {
	picker, err := t.picker(ctx, s.tools)
	if err != nil {
		return nil, err
	}
	defer picker.Close()
	all := make([]sample, 0, len(s.asks))
	for _, a := range s.asks {
		found, err := picker.Find(ctx, selector.Query{Task: a.Text, Limit: foundLimit, Servers: a.servers})
		if err != nil {
			return nil, err
		}
		kept := found.Candidates[:min(len(found.Candidates), keptLimit)]
		for _, c := range found.Candidates[len(kept):] {
			if a.kind != kindNone && a.Score(c.IDs()).MRR > 0 {
				kept = append(slices.Clip(kept), c)
			}
		}
		all = append(all, sample{s.origin, s.group, a.kind, a.Example, slices.Clone(kept), 1})
	}
	return all, nil
}

// Of one corpus, some queries are enough to fit a few numbers.
const (
	someQueries = 300 // of a corpus
	someVain    = 90  // likewise, without the servers that they need
)

// corpusScenes returns a part of the queries of each corpus.
func corpusScenes(corpora []*corpus) (all []*scene) {
	for _, c := range corpora {
		if c.name != smallest {
			all = append(all, &scene{origin: fromCorpora, group: c.name, tools: c.tools, asks: c.some(someQueries, someVain)})
		}
	}
	return all
}

// some returns some queries, and some without the servers that they need.
func (c *corpus) some(queries, vain int) (asks []ask) {
	random := rand.New(rand.NewPCG(7, 8))
	for taken, i := range random.Perm(len(c.queries)) {
		if taken >= max(queries, vain) {
			break
		}
		q := c.queries[i]
		if taken < queries {
			asks = append(asks, ask{Example: q, kind: "query"})
		}
		if taken < vain {
			if others := c.serversWithout(&q); len(others) > 0 {
				asks = append(asks, ask{evaluation.Example{ID: q.ID, Text: q.Text}, kindNone, others})
			}
		}
	}
	return asks
}

// sampledAll searches in all scenes, and balances the samples.
func (t *trainer) sampledAll(ctx context.Context, scenes []*scene) (all []sample, err error) {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(runtime.NumCPU())
	found := make([][]sample, len(scenes))
	for i, s := range scenes {
		group.Go(func() (err error) {
			found[i], err = t.sampledOf(ctx, s)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	all = slices.Concat(found...)
	balance(all)
	return all, nil
}

// shares are the weights of origins. Natural tasks are few, but what the search is for.
var shares = map[string]float64{fromNatural: 1, fromCorpora: 0.8, fromSmall: 0.3, fromSynthetic: 0.1, fromStray: 0.5}

// kindShares are the weights of kinds within an origin; 1 if they are not here. One task in
// ten has no tool.
var kindShares = map[string]float64{"sentence": 2}

const noToolShare = 0.1

// balance gives each group of an origin the same weight, and within it each kind its share.
// The weights of all samples that have a tool add up to the sum of the origins' shares.
func balance(all []sample) {
	type cell struct{ origin, group, kind string }
	counts := make(map[cell]float64)
	kinds := make(map[[2]string]map[string]bool)
	groups := make(map[string]map[string]bool)
	for _, s := range all {
		counts[cell{s.origin, s.group, s.kind}]++
		note(kinds, [2]string{s.origin, s.group}, s.kind)
		note(groups, s.origin, s.group)
	}
	for i := range all {
		s := &all[i]
		sum := 0.0
		for kind := range kinds[[2]string{s.origin, s.group}] {
			if kind != kindNone {
				sum += kindShare(kind)
			}
		}
		share := kindShare(s.kind) / max(1, sum)
		if s.kind == kindNone {
			share = noToolShare / (1 - noToolShare)
		}
		s.weight = shares[s.origin] * share / counts[cell{s.origin, s.group, s.kind}] / float64(len(groups[s.origin]))
	}
}

func kindShare(kind string) float64 {
	if share, ok := kindShares[kind]; ok {
		return share
	}
	return 1
}

func note[K comparable](sets map[K]map[string]bool, key K, value string) {
	if sets[key] == nil {
		sets[key] = make(map[string]bool)
	}
	sets[key][value] = true
}

package main

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/test/evaluation"
)

// heldOut are catalogs of tasks that nothing is fitted to: eval reports them.
var heldOut = []string{"travel", "goteam"}

// stepKind is the kind of tasks of siblings. Nothing is fitted to those with an even number.
const stepKind = "step"

// naturalScenes reads folders with catalog.json and tasks.jsonl, but for the part that is held out. The tools of
// servers are in the folder lists.
func naturalScenes(log *zap.Logger, dir, lists string) (all []*scene, err error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*", "tasks.jsonl"))
	if err != nil || len(paths) == 0 {
		return nil, fmt.Errorf("%q: no folder in it has tasks.jsonl", dir)
	}
	for _, path := range paths {
		folder := filepath.Dir(path)
		if slices.Contains(heldOut, filepath.Base(folder)) {
			continue
		}
		c, err := evaluation.ReadTasks(log, filepath.Join(folder, "catalog.json"), path, lists)
		if err != nil {
			return nil, err
		}
		s := &scene{ranks: true, tools: c.Tools}
		for _, t := range c.Tasks {
			if t.Kind == stepKind && (t.ID[len(t.ID)-1]-'0')%2 == 0 {
				continue
			}
			a := ask{Example: evaluation.Example{ID: t.ID, Text: t.Text}, source: t.Kind, vain: t.Kind == noTool}
			for _, id := range t.Right {
				a.need(id, "any")
			}
			s.asks = append(s.asks, a)
		}
		all = append(all, s)
	}
	return all, nil
}

// need adds a tool that is right; any of those with the same alternative will do.
func (a *ask) need(id, alternative string) {
	server, name, _ := strings.Cut(id, ":")
	a.Relevant = append(a.Relevant, evaluation.Relevant{Server: server, Name: name, Alternative: alternative})
}

// hasNamed reports whether the scene has a tool of the name of one that the task needs.
func (s *scene) hasNamed(e evaluation.Example) bool {
	return slices.ContainsFunc(s.tools, func(t registry.NormalizedTool) bool {
		return slices.ContainsFunc(e.Relevant, func(r evaluation.Relevant) bool { return r.Name == t.Name })
	})
}

// seeded returns numbers that are the same always.
func seeded(n uint64) *rand.Rand { return rand.New(rand.NewPCG(n, n+1)) }

// offTopic are servers of tasks that no tool of the natural catalogs is for.
var offTopic = []string{"kitchen_and_dining", "auto_and_commute", "credit_cards", "small_talk", "meta", "cooking", "iot", "takeaway", "play", "audio"}

const (
	strayCatalogs = 8 // parts of each natural catalog
	strayAsks     = 6 // of each, of tasks off topic, and of tasks of other catalogs
)

// strayScenes gives parts of the natural catalogs tasks that are not about them.
func strayScenes(natural []*scene, servers map[string][]*pooled) (all []*scene) {
	var pool []*pooled
	for _, name := range offTopic {
		pool = append(pool, servers[name]...)
	}
	random := seeded(11)
	for n, c := range natural {
		for range strayCatalogs {
			s := &scene{}
			for _, i := range random.Perm(len(c.tools))[:min(len(c.tools), sizeOf(random))] {
				s.tools = append(s.tools, c.tools[i])
			}
			s.asks = askSome(random, pool, strayAsks, "stray", true)
			other := natural[(n+1+random.IntN(len(natural)-1))%len(natural)]
			for _, i := range random.Perm(len(other.asks))[:strayAsks] {
				if a := other.asks[i]; !s.hasNamed(a.Example) {
					s.asks = append(s.asks, ask{evaluation.Example{ID: a.ID, Text: a.Text}, "stray", true})
				}
			}
			all = append(all, s)
		}
	}
	return all
}

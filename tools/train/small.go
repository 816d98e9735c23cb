package main

import (
	"maps"
	"math/rand/v2"
	"slices"

	"github.com/mcp-metarouter/metarouter/internal/evaluation"
	"github.com/mcp-metarouter/metarouter/registry"
)

const (
	smallCatalogs  = 30 // of each corpus
	smallQueries   = 10 // of each, with and without the tools that they need
	smallestNumber = 15 // of tools
	greatestNumber = 150
)

// smallScenes makes small catalogs, such as people have: parts of each corpus, with the
// servers that some queries need and others do not.
func smallScenes(corpora []*corpus) (all []*scene) {
	random := rand.New(rand.NewPCG(5, 6))
	for _, c := range corpora {
		if c.name == smallest {
			continue
		}
		byServer := make(map[string][]registry.NormalizedTool)
		for _, t := range c.tools {
			byServer[t.Server] = append(byServer[t.Server], t)
		}
		for range smallCatalogs {
			var queries []*evaluation.Example
			for _, i := range random.Perm(len(c.queries)) {
				queries = append(queries, &c.queries[i])
			}
			s := &scene{origin: fromSmall, group: c.name}
			s.fill(random, byServer, queries)
			all = append(all, s)
		}
	}
	return all
}

// fill puts servers into the catalog: those that the first queries need, and others until it
// is large enough. It asks these queries, and some that need other servers.
func (s *scene) fill(random *rand.Rand, byServer map[string][]registry.NormalizedTool, queries []*evaluation.Example) {
	size := smallestNumber + random.IntN(greatestNumber-smallestNumber)
	chosen := make(map[string]bool)
	add := func(server string) {
		if !chosen[server] && byServer[server] != nil && len(s.tools) < size {
			chosen[server] = true
			s.tools = append(s.tools, byServer[server]...)
		}
	}
	for _, q := range queries[:min(len(queries), smallQueries)] {
		for _, r := range q.Relevant {
			add(r.Server)
		}
	}
	servers := slices.Sorted(maps.Keys(byServer))
	for _, i := range random.Perm(len(servers)) {
		add(servers[i])
	}
	vain := 0
	for i, q := range queries {
		needs := slices.ContainsFunc(slices.Sorted(maps.Keys(chosen)), q.Needs)
		switch {
		case needs && i < smallQueries:
			s.asks = append(s.asks, ask{Example: *q, kind: "query"})
		case !needs && vain < smallQueries:
			vain++
			s.asks = append(s.asks, ask{Example: evaluation.Example{ID: q.ID, Text: q.Text}, kind: kindNone})
		}
	}
}

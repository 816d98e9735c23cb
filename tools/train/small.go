package main

import (
	"maps"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/test/evaluation"
)

const (
	smallCatalogs = 15 // of each corpus
	smallQueries  = 10 // of each, that have their tools
	smallVain     = 5  // of each, without a tool
	fewestTools   = 20
	mostTools     = 1000
)

// sizeOf returns the size of a catalog: as many have 20 to 140 tools as 140 to 1,000.
func sizeOf(random *rand.Rand) int {
	return int(fewestTools * math.Pow(float64(mostTools)/fewestTools, random.Float64()))
}

// smallScenes makes catalogs such as people have: parts of each corpus, with the
// servers that some queries need and others do not.
func smallScenes(corpora []*corpus) (all []*scene) {
	random := seeded(5)
	for _, c := range corpora {
		if c.name == smallest || c.name == "large" {
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
			s := &scene{}
			s.fill(random, c.name, byServer, queries)
			all = append(all, s)
		}
	}
	return all
}

// fill puts servers into the catalog: those that the first queries need, and others until it
// is large enough. It asks these queries, and some that need other servers.
func (s *scene) fill(random *rand.Rand, corpus string, byServer map[string][]registry.NormalizedTool, queries []*evaluation.Example) {
	size := sizeOf(random)
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
		a := ask{*q, sourceOf(corpus, q.ID), false}
		switch needs := slices.ContainsFunc(slices.Sorted(maps.Keys(chosen)), q.Needs); {
		case needs && i < smallQueries:
			s.asks = append(s.asks, a)
		case !needs && vain < smallVain:
			vain++
			a.Relevant, a.vain = nil, true
			s.asks = append(s.asks, a)
		}
	}
}

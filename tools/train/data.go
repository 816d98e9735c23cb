package main

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/internal/index"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/selector"
)

// A corpus is tools and queries about them.
type corpus struct {
	name    string
	family  string // corpora that share tools have the same
	tools   []registry.NormalizedTool
	queries []selector.Example
	terms   [][]index.Term // of each tool
	fold    []int          // of each query: those about the same are in one
	learned bool           // from; else its queries are another's too
}

const manyFolds = 60 // divisible by any number of folds in use

func load(log *zap.Logger, dir string, large []string) (all []*corpus, err error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*", "queries.jsonl"))
	if err != nil || len(paths) == 0 {
		return nil, fmt.Errorf("-data %s: no folder in it has queries.jsonl", dir)
	}
	big := &corpus{name: "large", family: "large", learned: true}
	var files []string
	for _, name := range large {
		files = append(files, filepath.Join(dir, name, "tools.jsonl"))
	}
	for _, path := range paths {
		folder := filepath.Dir(path)
		c := &corpus{name: filepath.Base(folder), learned: true}
		c.family = c.name
		if c.queries, err = selector.ReadExamples(path); err != nil {
			return nil, err
		}
		if c.tools, err = selector.ReadCatalog(log, filepath.Join(folder, "tools.jsonl")); err != nil {
			return nil, err
		}
		if slices.Contains(large, c.name) {
			c.family, c.learned = big.family, false
			big.queries = append(big.queries, c.queries...)
		}
		all = append(all, c)
	}
	if len(big.queries) > 0 {
		if big.tools, err = selector.ReadCatalog(log, files...); err != nil {
			return nil, err
		}
		all = append(all, big)
	}
	for _, c := range all {
		c.split()
		if c.learned {
			c.terms = make([][]index.Term, len(c.tools))
			parallel(len(c.tools), func(i int) { c.terms[i] = index.NewDocument(registry.Item{Tool: &c.tools[i]}, noVectors()).Terms })
		}
	}
	return all, nil
}

// split deals the queries out to folds.
func (c *corpus) split() {
	groups := make(map[string]int)
	random := rand.New(rand.NewPCG(1, 2))
	for _, q := range c.queries {
		g, known := groups[q.Group]
		if !known || q.Group == "" {
			g = random.IntN(manyFolds)
			groups[q.Group] = g
		}
		c.fold = append(c.fold, g)
	}
}

const maxTaskWords = 150

func taskWords(q *selector.Example) []string {
	words := selector.Words(q.Text)
	return words[:min(len(words), maxTaskWords)]
}

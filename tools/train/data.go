package main

import (
	"fmt"
	"path/filepath"
	"slices"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/test/evaluation"
)

// A corpus is tools and queries about them.
type corpus struct {
	name    string
	tools   []registry.NormalizedTool
	queries []evaluation.Example
}

// smallest is a corpus too small to count in means, and to fit anything to.
const smallest = "mcpproxy-golden"

func load(log *zap.Logger, dir string, large []string) (all []*corpus, err error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*", "queries.jsonl"))
	if err != nil || len(paths) == 0 {
		return nil, fmt.Errorf("-data %s: no folder in it has queries.jsonl", dir)
	}
	big := &corpus{name: "large"}
	var files []string
	for _, name := range large {
		files = append(files, filepath.Join(dir, name, "tools.jsonl"))
	}
	for _, path := range paths {
		folder := filepath.Dir(path)
		c := &corpus{name: filepath.Base(folder)}
		if c.queries, err = evaluation.ReadExamples(path); err != nil {
			return nil, err
		}
		if c.tools, err = evaluation.ReadCatalog(log, filepath.Join(folder, "tools.jsonl")); err != nil {
			return nil, err
		}
		if slices.Contains(large, c.name) {
			big.queries = append(big.queries, c.queries...)
		}
		all = append(all, c)
	}
	if len(big.queries) > 0 {
		if big.tools, err = evaluation.ReadCatalog(log, files...); err != nil {
			return nil, err
		}
		all = append(all, big)
	}
	return all, nil
}

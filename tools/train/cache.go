package main

import (
	"bufio"
	"encoding/gob"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/mcp-metarouter/metarouter/internal/evaluation"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/selector"
)

// A keptSample is a sample as a file has it: of tools, only the names.
type keptSample struct {
	Origin, Group, Kind string
	Query               evaluation.Example
	Tools               [][2]string
	Numbers             [][]float32 // features and evidence of each candidate
}

// cached returns the samples that the file has, or makes and writes them. Without a path it
// makes them.
func cached(path string, make func() ([]sample, error)) ([]sample, error) {
	if path == "" {
		return make()
	}
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		all, err := make()
		if err != nil {
			return nil, err
		}
		return all, write(path, all)
	}
	if err != nil {
		return nil, fmt.Errorf("-samples: %w", err)
	}
	defer f.Close()
	var kept []keptSample
	if err := gob.NewDecoder(bufio.NewReader(f)).Decode(&kept); err != nil {
		return nil, fmt.Errorf("-samples %s: %w", path, err)
	}
	all := restored(kept)
	balance(all)
	return all, nil
}

func write(path string, all []sample) error {
	kept := make([]keptSample, len(all))
	for i, s := range all {
		k := &kept[i]
		*k = keptSample{Origin: s.origin, Group: s.group, Kind: s.kind, Query: s.query}
		for _, c := range s.found {
			k.Tools = append(k.Tools, [2]string{c.Tool.Server, c.Tool.Name})
			var numbers []float32
			for _, x := range c.Features {
				numbers = append(numbers, float32(x))
			}
			for _, x := range c.Evidence {
				numbers = append(numbers, float32(x))
			}
			k.Numbers = append(k.Numbers, numbers)
		}
	}
	f, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("-samples: %w", err)
	}
	w := bufio.NewWriter(f)
	return errors.Join(gob.NewEncoder(w).Encode(kept), w.Flush(), f.Close())
}

func restored(kept []keptSample) []sample {
	all := make([]sample, len(kept))
	for i, k := range kept {
		s := sample{origin: k.Origin, group: k.Group, kind: k.Kind, query: k.Query}
		for n, tool := range k.Tools {
			c := selector.Candidate{Tool: &registry.NormalizedTool{ID: tool[0] + ":" + tool[1], Server: tool[0], Name: tool[1]}}
			for f := range c.Features {
				c.Features[f] = float64(k.Numbers[n][f])
			}
			for e := range c.Evidence {
				c.Evidence[e] = float64(k.Numbers[n][numFeatures+e])
			}
			s.found = append(s.found, c)
		}
		all[i] = s
	}
	return all
}

package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/internal/evaluation"
)

// heldOut are catalogs of tasks that nothing is fitted to: they are reported only.
var heldOut = []string{"travel", "goteam"}

// naturalScenes reads folders with catalog.json and tasks.jsonl: those in dir that are held
// out, or those that are not. The tools of servers are in the folder lists.
func naturalScenes(log *zap.Logger, dir, lists string, out bool) (all []*scene, err error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*", "tasks.jsonl"))
	if err != nil || dir != "" && len(paths) == 0 {
		return nil, fmt.Errorf("-natural %s: no folder in it has tasks.jsonl", dir)
	}
	for _, path := range paths {
		folder := filepath.Dir(path)
		if slices.Contains(heldOut, filepath.Base(folder)) != out {
			continue
		}
		c, err := evaluation.ReadTasks(log, filepath.Join(folder, "catalog.json"), path, lists)
		if err != nil {
			return nil, err
		}
		s := &scene{origin: fromNatural, group: c.Name, tools: c.Tools}
		for _, t := range c.Tasks {
			a := ask{Example: evaluation.Example{ID: t.ID, Text: t.Text}, kind: t.Kind}
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
	n := len(a.Relevant)
	a.Relevant = slices.Grow(a.Relevant, 1)[:n+1]
	r := &a.Relevant[n]
	r.Server, r.Name, r.Alternative = server, name, alternative
}

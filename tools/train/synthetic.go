package main

import (
	"bufio"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/test/evaluation"
)

// A line of the files of pairs: a task, and the tool that it needs.
type askedRow struct {
	Source, Query string
	Positive      struct {
		Name, Description, Server string
		Params                    []string
	}
}

// A pooled is something like a tool, and all that was asked of it.
type pooled struct {
	server  string // in synthetic catalogs
	kind    string // the source
	row     askedRow
	queries []string
}

// pairSources are the sources that synthetic catalogs are made of, and how many tasks of a
// catalog come from one in comparison. Titles are not how people ask. Others state no
// licence, have servers instead of tools, or are too few.
var pairSources = map[string]float64{
	"sgd": 1, "tldr": 1, "nl2bash": 1, "clinc150": 1, "hwu64": 1, "snips": 1, "banking77": 0.5, "apibench": 0.5,
	"toolalpaca": 1, "tooltalk": 1, "powerplatform": 0.3, "activepieces": 0.3,
	"openapi:box": 0.3, "openapi:okta": 0.3, "openapi:Adyen": 0.3, "openapi:sendgrid": 0.3,
}

// readPairs reads the files tasks-*.jsonl.gz of dir, by server. What has no server comes in
// parts, as servers of their own.
func readPairs(dir string) (map[string][]*pooled, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "tasks-*.jsonl.gz"))
	if err != nil || len(paths) == 0 {
		return nil, fmt.Errorf("-train %s: no file in it is named tasks-*.jsonl.gz", dir)
	}
	byName := make(map[string]*pooled)
	for _, path := range paths {
		err := readGzip(path, func(r askedRow) {
			if _, ok := pairSources[r.Source]; !ok || r.Query == "" {
				return
			}
			key := r.Source + "\n" + r.Positive.Server + "\n" + r.Positive.Name
			p := byName[key]
			if p == nil {
				p = &pooled{kind: r.Source, row: r}
				byName[key] = p
			}
			p.queries = append(p.queries, r.Query)
		})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	servers := make(map[string][]*pooled)
	parts := make(map[string]int)
	for _, key := range slices.Sorted(maps.Keys(byName)) {
		p := byName[key]
		p.server = cmp.Or(p.row.Positive.Server, p.kind)
		if p.row.Positive.Server == "" || p.kind == "tldr" {
			first, _, _ := strings.Cut(p.row.Positive.Name, " ")
			p.server = fmt.Sprintf("%s_%d", p.kind, parts[p.kind]/partSize)
			parts[p.kind]++
			if n := parts[p.kind+" "+first]; n > 0 { // a command and its subcommands are together
				p.server = fmt.Sprintf("%s_%d", p.kind, n-1)
			} else {
				parts[p.kind+" "+first] = parts[p.kind]/partSize + 1
			}
		}
		servers[p.server] = append(servers[p.server], p)
	}
	return servers, nil
}

const partSize = 25 // tools

func readGzip(path string, take func(askedRow)) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	z, err := gzip.NewReader(bufio.NewReader(f))
	if err != nil {
		return err
	}
	lines := bufio.NewScanner(z)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var r askedRow
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return err
		}
		take(r)
	}
	return lines.Err()
}

const (
	syntheticCatalogs = 30
	syntheticAsks     = 16 // of each, that have a tool
	syntheticVain     = 4  // of each, without a tool
	mostOfServer      = 60
	apis              = "apis" // their source
)

// syntheticScenes makes catalogs of servers at random, and asks for some of their tools, and
// for some of other servers.
func syntheticScenes(log *zap.Logger, servers map[string][]*pooled) (all []*scene, err error) {
	names := slices.Sorted(maps.Keys(servers))
	random := seeded(9)
	file, err := os.CreateTemp("", "catalog*.jsonl")
	if err != nil {
		return nil, err
	}
	defer os.Remove(file.Name())
	defer file.Close()
	for range syntheticCatalogs {
		size := sizeOf(random)
		var chosen, others []*pooled
		for _, i := range random.Perm(len(names)) {
			tools := servers[names[i]]
			if len(chosen) < size {
				chosen = append(chosen, tools[:min(len(tools), mostOfServer)]...)
			} else if others = append(others, tools...); len(others) > mostTools {
				break
			}
		}
		s := &scene{ranks: true}
		if s.tools, err = toolsOf(log, file, chosen); err != nil {
			return nil, err
		}
		s.asks = append(askSome(random, chosen, syntheticAsks, apis, false), askSome(random, others, syntheticVain, apis, true)...)
		all = append(all, s)
	}
	return all, nil
}

// toolsOf registers the chosen ones as tools, as if servers had listed them.
func toolsOf(log *zap.Logger, file *os.File, chosen []*pooled) ([]registry.NormalizedTool, error) {
	var lines []byte
	for _, p := range chosen {
		properties := make(map[string]any)
		for _, name := range p.row.Positive.Params {
			properties[name] = map[string]any{"type": "string"}
		}
		lines = append(append(lines, wire.Marshal(map[string]any{
			"server": p.server, "name": p.row.Positive.Name, "description": p.row.Positive.Description,
			"input_schema": map[string]any{"type": "object", "properties": properties},
		})...), '\n')
	}
	if err := os.WriteFile(file.Name(), lines, 0o600); err != nil {
		return nil, err
	}
	return evaluation.ReadCatalog(log, file.Name())
}

// askSome asks for so many of the tools, each once, with one of its queries.
func askSome(random *rand.Rand, tools []*pooled, n int, source string, vain bool) (asks []ask) {
	for _, i := range random.Perm(len(tools)) {
		p := tools[i]
		if len(asks) == n {
			break
		}
		if random.Float64() > pairSources[p.kind] {
			continue
		}
		a := ask{source: source, vain: vain, Example: evaluation.Example{ID: p.kind, Text: p.queries[random.IntN(len(p.queries))]}}
		if !vain {
			for _, other := range tools {
				if other.row.Positive.Name == p.row.Positive.Name {
					a.need(other.server+":"+other.row.Positive.Name, "any")
				}
			}
		}
		asks = append(asks, a)
	}
	return asks
}

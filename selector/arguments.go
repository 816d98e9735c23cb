package selector

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/mcp-metarouter/metarouter/internal/index"
	"github.com/mcp-metarouter/metarouter/internal/schema"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/selector/internal/rank"
)

const (
	maxGiven  = 50   // names of arguments that are compared with tools
	maxTakers = 2000 // tools of a catalog that are looked at besides the candidates
)

// takers returns the tools that the given arguments may be for: the candidates, and further
// tools that take them all and require no others, without those that lack one of the names.
// Names that no tool has count for nothing, and without any other all candidates stay.
// complete says which tools have all that they require.
func takers(request index.Query, candidates []*index.Document, args json.RawMessage) (able []*index.Document, complete rank.Complete) {
	var given []string
	_ = wire.Members(args, func(name string, _ []byte) bool { // null has none
		given = append(given, nameKey(name))
		return len(given) < maxGiven
	})
	if len(given) == 0 {
		return candidates, rank.Complete{}
	}
	all := slices.Clone(candidates)
	if request.Within.Len() <= maxTakers {
		for _, d := range request.Within.All {
			if request.Admits(d) && !slices.Contains(candidates, d) {
				all = append(all, d)
			}
		}
	}
	took, known := make([]schema.Parameters, len(all)), make(map[string]bool)
	for i, d := range all {
		took[i] = parametersOf(request.Within.Tool(d.Tool))
		for _, name := range given {
			known[name] = known[name] || slices.Contains(took[i].Names, name)
		}
	}
	given = slices.DeleteFunc(given, func(name string) bool { return !known[name] })
	complete = rank.Complete{Tools: make(map[string]bool), Given: len(given)}
	for i, d := range all {
		p := took[i]
		fits := p.Open || !slices.ContainsFunc(given, func(name string) bool { return !slices.Contains(p.Names, name) })
		whole := fits && len(p.Required) > 0 && !p.Open && !slices.ContainsFunc(p.Required, func(name string) bool { return !slices.Contains(given, name) })
		complete.Tools[d.Tool.ID] = whole
		if fits && (whole || i < len(candidates)) {
			able = append(able, d)
		}
	}
	if len(given) == 0 || len(able) == 0 {
		return candidates, rank.Complete{}
	}
	return able, complete
}

// parametersOf returns a tool's parameters, as nameKey writes them.
func parametersOf(t *registry.NormalizedTool) schema.Parameters {
	p := schema.ParametersOf(t.InputSchema)
	for _, names := range [][]string{p.Names, p.Required} {
		for i, name := range names {
			names[i] = nameKey(name)
		}
	}
	return p
}

// nameKey returns a name as all ways to write it have it: filePath, file_path and file-path.
func nameKey(name string) string {
	return strings.ToLower(strings.ReplaceAll(strings.ReplaceAll(name, "_", ""), "-", ""))
}

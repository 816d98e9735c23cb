package doctor

import (
	"fmt"

	"github.com/mcp-metarouter/metarouter/internal/plain"
	"github.com/mcp-metarouter/metarouter/internal/prose"
	"github.com/mcp-metarouter/metarouter/internal/schema"
	"github.com/mcp-metarouter/metarouter/registry"
)

// checkSchemas names the tools whose schemas are too costly to compare arguments with.
func checkSchemas(x *findings, o registry.Listing) {
	var costly, names []string
	for _, t := range o.Tools {
		compared := t.InputSchema
		if t.ServerSchema != nil {
			compared = t.ServerSchema
		}
		if err := schema.Costly(compared); err != nil {
			costly = append(costly, fmt.Sprintf("%s: %v", plain.Line(clip(t.Name, 40)), err))
			names = append(names, t.ServerName())
		}
	}
	if len(costly) > 0 {
		x.add(Warning, fmt.Sprintf("the arguments of %s are not validated, since the schemas would take very long to validate with.", prose.Count(len(costly), "tool")),
			fmt.Sprintf(`report this to the server's authors; if you don't know why a schema is like this, leave the tools out: "tools": {"deny": [%s]}`, quoted(names[:min(len(names), 3)])),
			costly[:min(len(costly), 5)]...)
	}
}

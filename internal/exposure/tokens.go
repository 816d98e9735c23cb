package exposure

import (
	"github.com/mcp-metarouter/metarouter/internal/content"
	"github.com/mcp-metarouter/metarouter/registry"
)

// Tokens returns the cost of a list of the tools that models may see, as an estimate.
func Tokens(tools []*registry.NormalizedTool) int {
	size := 0
	for _, t := range tools {
		if t.ForModels() {
			size += len(t.Definition)
		}
	}
	return size / content.TokenBytes
}

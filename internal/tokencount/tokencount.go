// Package tokencount estimates the cost of texts for language models, in tokens.
package tokencount

import "github.com/mcp-metarouter/metarouter/registry"

// Bytes is how many bytes of JSON or text count as a token.
const Bytes = 4

// Of returns the cost of a list of the tools that models may see.
func Of(tools []*registry.NormalizedTool) int {
	size := 0
	for _, t := range tools {
		if t.ForModels() {
			size += len(t.Definition)
		}
	}
	return size / Bytes
}

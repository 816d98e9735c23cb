package exposure

import (
	"github.com/mcp-metarouter/metarouter/internal/content"
	"github.com/mcp-metarouter/metarouter/registry"
)

// The modes in which a router shows its tools.
const (
	Auto   = "auto"   // Direct if the list is cheap, else Search
	Direct = "direct" // all tools are listed
	Search = "search" // tools that find and run the others are listed
	Code   = "code"   // tools that find the others are listed, and one that runs scripts, which call them
)

// ModeFor returns the mode itself, or Auto's choice, Direct or Search, for a list that costs so many tokens.
func ModeFor(mode string, tokens, budget int) string {
	switch {
	case mode == Direct || mode == Search || mode == Code:
		return mode
	case tokens > budget:
		return Search
	}
	return Direct
}

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

package catalog

import "github.com/mcp-metarouter/metarouter/registry"

func tool(server, name string) registry.NormalizedTool {
	return registry.NormalizedTool{ID: registry.ID(server, name), Server: server, Name: name}
}

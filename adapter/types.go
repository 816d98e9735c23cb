package adapter

import (
	"github.com/mcp-metarouter/metarouter/adapter/internal/catalog"
	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/registry"
)

// An Error is a JSON-RPC error with which an MCP server has answered.
type Error = session.Error

// ErrNotSent is wrapped by errors of calls that have not reached a tool, so that making
// them again does no harm.
var ErrNotSent = session.ErrNotSent

// StoredOffers returns the offers of a configuration's servers that are stored in the data folder, by server.
func StoredOffers(c config.Config, dataDir string) map[string]registry.Offer {
	return catalog.StoredOffers(c, dataDir)
}

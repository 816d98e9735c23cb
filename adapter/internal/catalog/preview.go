package catalog

import (
	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/adapter/internal/offerstore"
	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/supervisor"
)

// StoredOffers returns the offers of a configuration's servers that are stored in the data folder, by server.
func StoredOffers(c config.Config, dataDir string) map[string]registry.Offer {
	store, all := offerstore.NewStore(dataDir, zap.NewNop()), make(map[string]registry.Offer)
	for _, s := range c.Servers {
		if !supervisor.Startable(s) {
			continue
		}
		if o, ok := store.Load(storeKey(s, c.Router.Capabilities), s.Name); ok {
			all[s.Name] = o
		}
	}
	return all
}

package adapter

import (
	"context"
	"sync"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/adapter/internal/catalog"
	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/session"
)

// An othersCatalog writes what servers of other nodes offer to the registry. It is the cluster's
// handler. Nothing of it is stored: there may be thousands of servers, and each node keeps its own.
type othersCatalog struct {
	writer   *catalog.Writer
	current  *holder
	services *services
	log      *zap.Logger

	mu    sync.Mutex      // guards known
	known map[string]bool // servers that were learned
}

// Learn implements [cluster.Handler].
func (c *othersCatalog) Learn(ctx context.Context, entry config.Server, s session.Session) error {
	if c.current.load().has(entry.Name) {
		c.log.Warn("an entry of the configuration has the name of a server on another node, which is not used; rename the entry", zap.String("server", entry.Name))
		return nil
	}
	if config.IsService(entry.Service) {
		c.forget(entry.Name) // before, it may have named none
		return c.services.learn(ctx, entry, s)
	}
	c.services.forget(entry.Name)
	c.mu.Lock()
	if c.known == nil {
		c.known = make(map[string]bool)
	}
	c.known[entry.Name] = true
	c.mu.Unlock()
	return c.writer.LearnOther(ctx, entry, s)
}

// Forget implements [cluster.Handler].
func (c *othersCatalog) Forget(server string) {
	if !c.services.forget(server) {
		c.forget(server)
	}
}

// forget forgets a server that names no service.
func (c *othersCatalog) forget(server string) {
	c.mu.Lock()
	known := c.known[server]
	delete(c.known, server)
	c.mu.Unlock()
	if known && !c.current.load().has(server) {
		c.writer.ForgetOther(server)
	}
}

// clear forgets all servers of other nodes.
func (c *othersCatalog) clear() {
	c.services.clear()
	c.mu.Lock()
	known := c.known
	c.known = nil
	c.mu.Unlock()
	for server := range known {
		if !c.current.load().has(server) {
			c.writer.ForgetOther(server)
		}
	}
}

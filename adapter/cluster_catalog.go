package adapter

import (
	"context"
	"sync"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/registry"
)

// An othersCatalog writes what servers of other nodes offer to the registry. It is the cluster's
// handler. Nothing of it is stored: there may be thousands of servers, and each node keeps its own.
type othersCatalog struct {
	writer   *catalogWriter
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
	if entry.Service != "" && config.Check("mcpServers.*.service", entry.Service) == nil {
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
	return c.writer.learnOther(ctx, entry, s)
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
		c.writer.forgetOther(server)
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
			c.writer.forgetOther(server)
		}
	}
}

// learnOther is Learn for a server of another node.
func (w *catalogWriter) learnOther(ctx context.Context, entry config.Server, s session.Session) error {
	w.mu.Lock()
	t := w.tagger
	w.others[entry.Name] = entry
	w.mu.Unlock()
	offer, err := t.discovery.List(ctx, entry.Name, s, rulesOf(entry))
	if err != nil {
		return err
	}
	err = w.adopt(ctx, entry, offer, t)
	return err
}

// forgetOther is Forget for a server of another node. Its tools are remembered for a while: when the
// node is back, it may have changed them.
func (w *catalogWriter) forgetOther(server string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.known[server] != "" {
		w.gone.put(server, w.offer(server))
	}
	w.forget(server)
	delete(w.others, server)
}

// isOther reports whether a server is one of another node. w.mu must be held.
func (w *catalogWriter) isOther(server string) bool {
	_, ok := w.others[server]
	return ok
}

// Bounds of what is remembered of servers on nodes that are gone.
const (
	maxGone      = 2000
	maxGoneBytes = 64 << 20
)

// goneOffers are what servers of other nodes offered before they were gone, the oldest first. The
// zero value is empty.
type goneOffers struct {
	offers map[string]goneOffer
	order  []string // the names, also of offers that were taken meanwhile
	bytes  int
}

type goneOffer struct {
	registry.Offer
	bytes int
}

func (g *goneOffers) put(server string, o registry.Offer) {
	if len(o.Tools) == 0 {
		return
	}
	kept := goneOffer{Offer: registry.Offer{Tools: o.Tools, LastSeen: o.LastSeen, Confirmed: o.Confirmed}}
	for i := range o.Tools {
		kept.bytes += len(o.Tools[i].Definition) + len(o.Tools[i].Flat) + len(o.Tools[i].InputSchema) + len(o.Tools[i].ServerSchema) + len(o.Tools[i].Description)
	}
	if g.offers == nil {
		g.offers = make(map[string]goneOffer)
	}
	g.take(server)
	g.offers[server] = kept
	g.order = append(g.order, server)
	g.bytes += kept.bytes
	for len(g.order) > maxGone || g.bytes > maxGoneBytes {
		g.take(g.order[0])
	}
}

// take removes what a server offered, and returns it.
func (g *goneOffers) take(server string) (o registry.Offer, ok bool) {
	kept, ok := g.offers[server]
	if !ok {
		return o, false
	}
	delete(g.offers, server)
	g.bytes -= kept.bytes
	for i, name := range g.order {
		if name == server {
			g.order = append(g.order[:i], g.order[i+1:]...)
			break
		}
	}
	return kept.Offer, true
}

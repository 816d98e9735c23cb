package adapter

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"sync"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/discovery"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/session"
	"github.com/mcp-metarouter/metarouter/supervisor"
)

// A catalog makes the registry and the store say what the servers' sessions
// say. It is the supervisor's handler.
type catalog struct {
	onDemand  bool
	tags      map[string][]string // the configuration's own capabilities, which stored tools depend on
	discovery *discovery.Discovery
	registry  *registry.Registry
	store     *registry.Store
	labels    *labels // nil if nobody gives tools further tags
	log       *zap.Logger

	// mu guards what follows, and has the registry change together with it.
	mu     sync.Mutex
	known  map[string]string         // server -> the hash of the entry whose offer is in the registry
	offers map[string]registry.Offer // by server, before labels; nil if there are none
}

func newCatalog(onDemand bool, tags map[string][]string, d *discovery.Discovery, r *registry.Registry, s *registry.Store, log *zap.Logger) *catalog {
	return &catalog{
		onDemand: onDemand, tags: tags, discovery: d, registry: r, store: s, log: log.Named("catalog"),
		known: make(map[string]string), offers: make(map[string]registry.Offer),
	}
}

// publish puts the offer into the registry. c.mu must be held.
func (c *catalog) publish(server string, o registry.Offer) (changed bool, err error) {
	if c.labels == nil {
		return c.registry.Replace(server, o)
	}
	if changed, err = c.registry.Replace(server, c.labels.label(o)); err == nil {
		c.offers[server] = o
		c.labels.changed()
	}
	return changed, err
}

// texts returns those by which the tools are classified, each once.
func (c *catalog) texts() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var texts []string
	seen := make(map[string]bool)
	for _, o := range c.offers {
		for i := range o.Tools {
			if text := c.labels.text(&o.Tools[i]); !seen[text] {
				seen[text] = true
				texts = append(texts, text)
			}
		}
	}
	slices.Sort(texts)
	return texts
}

// relabel puts all offers into the registry anew, with the tags that they have now.
func (c *catalog) relabel() {
	c.mu.Lock()
	defer c.mu.Unlock()
	offers := make(map[string]registry.Offer, len(c.offers))
	for server, o := range c.offers {
		offers[server] = c.labels.label(o)
	}
	if _, err := c.registry.ReplaceAll(offers); err != nil {
		c.log.Error("tag tools", zap.Error(err))
	}
}

// storeKey returns the key of the server's stored offer: a hash of all that
// determines what it is.
func (c *catalog) storeKey(s config.Server) string {
	rules := wire.Marshal([]any{s.Hash(), s.Tools, s.Capabilities, c.tags})
	sum := sha256.Sum256(rules)
	return hex.EncodeToString(sum[:12])
}

// recall puts the stored offers of servers into the registry that nothing is
// known of. Those of an edited entry stay until the new one is up.
func (c *catalog) recall(servers []config.Server) {
	for _, s := range servers {
		if !supervisor.Startable(s) || c.has(s.Name) {
			continue
		}
		offer, ok := c.store.Load(c.storeKey(s), s.Name)
		if !ok {
			continue
		}
		c.mu.Lock()
		if c.known[s.Name] == "" {
			if _, err := c.publish(s.Name, offer); err != nil {
				c.log.Warn("can't use the stored offer", zap.String("server", s.Name), zap.Error(err))
			} else {
				c.known[s.Name] = c.storeKey(s)
			}
		}
		c.mu.Unlock()
	}
}

func (c *catalog) has(server string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.known[server] != ""
}

// Learn implements [supervisor.Handler].
func (c *catalog) Learn(ctx context.Context, entry config.Server, s session.Session) error {
	offer, err := c.discovery.List(ctx, entry.Name, s, rulesOf(entry))
	if err != nil {
		return err
	}
	for _, d := range offer.Dropped {
		c.log.Debug("left out", zap.String("server", entry.Name), zap.String(d.Kind, d.Name), zap.String("reason", d.Reason))
	}
	news, err := c.adopt(ctx, entry, offer)
	if err != nil || !news {
		return err
	}
	if err := c.store.Save(c.storeKey(entry), entry.Name, offer); err != nil {
		c.log.Warn("can't store what the server offers; the next start will be slower", zap.String("server", entry.Name), zap.Error(err))
	}
	return nil
}

func rulesOf(entry config.Server) discovery.Rules {
	return discovery.Rules{
		Allow: entry.Tools.Allow, Deny: entry.Tools.Deny, Rename: entry.Tools.Rename,
		Capabilities: entry.Capabilities,
	}
}

// adopt makes the offer that of the server, unless ctx has ended. It reports
// whether it differs from what is stored.
func (c *catalog) adopt(ctx context.Context, entry config.Server, o registry.Offer) (news bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if ctx.Err() != nil {
		return false, context.Cause(ctx)
	}
	changed, err := c.publish(entry.Name, o)
	if err != nil {
		return false, err
	}
	key := c.storeKey(entry)
	news = changed || c.known[entry.Name] != key
	c.known[entry.Name] = key
	return news, nil
}

// Known implements [supervisor.Handler].
func (c *catalog) Known(entry config.Server) bool { return c.onDemand || c.listed(entry) }

// listed reports whether the entry's offer is in the registry.
func (c *catalog) listed(entry config.Server) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.known[entry.Name] == c.storeKey(entry)
}

// Forget implements [supervisor.Handler].
func (c *catalog) Forget(server string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.known, server)
	delete(c.offers, server)
	c.registry.Remove(server)
}

package catalog

import (
	"reflect"
	"slices"
	"sync"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/discovery"
	"github.com/mcp-metarouter/metarouter/internal/hints"
	"github.com/mcp-metarouter/metarouter/registry"
)

// published are the offers in the registry.
type published struct {
	registry *registry.Registry
	log      *zap.Logger

	// mu guards the fields below, and has the registry change together with them.
	mu      sync.Mutex
	tagger  *Tagger
	entries map[string]config.Server  // of the configuration
	known   map[string]string         // server -> the key of the offer that is in the registry
	older   map[string]registry.Offer // of entries that were edited while no router ran, and of servers of nodes that are away, until they are listed
}

// publish puts the offer into the registry, with the doubts about the hints of its tools. p.mu must
// be held.
func (p *published) publish(server string, o registry.Offer) (changed bool, err error) {
	return p.registry.Replace(server, p.tagger.doubt(p.entries[server], o))
}

// offer returns the server's offer. p.mu must be held.
func (p *published) offer(server string) registry.Offer {
	l := p.registry.Snapshot().Offer(server)
	return registry.Offer{
		Tools: values(l.Tools), Prompts: values(l.Prompts), Resources: values(l.Resources), Templates: values(l.Templates), Skills: values(l.Skills),
		Capabilities: l.Capabilities, Extensions: l.Extensions, Version: l.Version, Look: l.Look, Instructions: l.Instructions, Suspect: l.Suspect, Dropped: l.Dropped, LastSeen: l.LastSeen, Confirmed: l.Confirmed,
	}
}

func values[T any](pointers []*T) (all []T) {
	for _, one := range pointers {
		all = append(all, *one)
	}
	return all
}

// Listed reports whether the entry's offer is in the registry.
func (p *published) Listed(entry config.Server) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	known := p.known[entry.Name]
	return known != "" && known == p.tagger.storeKey(entry) // a key takes time to compute
}

// permitted returns the tools of an entry that the entry in use, perhaps an edited one, does not leave out, and their key: no entry's, if some are. p.mu must be held.
func (p *published) permitted(entry config.Server, tools []registry.NormalizedTool) (kept []registry.NormalizedTool, key string) {
	kept = slices.DeleteFunc(slices.Clone(tools), func(one registry.NormalizedTool) bool {
		_, out := discovery.Rules(p.entries[entry.Name].Tools).Excludes(one.ServerName())
		return out
	})
	if key = p.tagger.storeKey(entry); len(kept) < len(tools) {
		key += "partial"
	}
	return kept, key
}

// trust notes the entries, and updates the tools of the servers that are judged in another way than before, or left out. p.mu must be held.
func (p *published) trust(entries []config.Server) {
	before := p.entries
	p.entries = make(map[string]config.Server, len(entries))
	for _, entry := range entries {
		p.entries[entry.Name] = entry
		was := before[entry.Name]
		if p.known[entry.Name] == "" || was.TrustHints == entry.TrustHints && was.NewTools == entry.NewTools && reflect.DeepEqual(was.Tools, entry.Tools) {
			continue
		}
		before, now := p.offer(entry.Name), p.offer(entry.Name)
		if kept, key := p.permitted(was, before.Tools); len(kept) < len(before.Tools) {
			now.Tools, p.known[entry.Name] = kept, key
		}
		now.LastSeen, now.Confirmed = lastSeen(before, now.Tools, false), hints.Confirmed(before, now.Tools)
		if _, err := p.publish(entry.Name, now); err != nil {
			p.log.Error("judge hints of tools", zap.String("server", entry.Name), zap.Error(err))
		}
	}
}

// compareNext keeps the parts of an offer with which the server's next one is compared. p.mu must be held.
func (p *published) compareNext(server string, o registry.Offer) {
	p.older[server] = registry.Offer{Tools: o.Tools, LastSeen: o.LastSeen, Confirmed: o.Confirmed}
}

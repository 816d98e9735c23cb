package adapter

import (
	"cmp"
	"maps"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/clusternode"
	"github.com/mcp-metarouter/metarouter/internal/glob"
	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/registry"
)

// sharedServers returns the names of the servers that other nodes may use.
func sharedServers(c config.Config) map[string]bool {
	if c.Router.Cluster == nil {
		return nil
	}
	shared := make(map[string]bool)
	for _, text := range c.Router.Cluster.Share {
		for _, entry := range c.Servers {
			if glob.Match(text, entry.Name) && entry.Startable() && !entry.Personal() && entry.Transport != config.Scripts {
				shared[entry.Name] = true
			}
		}
	}
	return shared
}

// A hostOffer is what is known of a server that other nodes may use, also while it does not run.
type hostOffer struct {
	asks     bool // the server has asked clients for something
	protocol string
}

// Offers implements [cluster.Host].
func (h *clusterHost) Offers() (map[string]clusternode.Offer, <-chan struct{}) {
	changed := h.router.changed.Next()
	setup, snapshot := h.router.current.load(), h.router.registry.Snapshot()
	protocols := make(map[string]string)
	for _, s := range h.router.supervisor.Status() {
		protocols[s.Name] = s.ProtocolVersion
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	all := make(map[string]clusternode.Offer)
	for _, entry := range setup.config.Servers {
		listing := snapshot.Offer(entry.Name)
		if !setup.shared[entry.Name] || listing.Capabilities == nil && len(listing.Tools) == 0 { // it is not listed yet
			continue
		}
		was := h.offers[entry.Name]
		was = hostOffer{was.asks || h.router.supervisor.Asks(entry.Name), cmp.Or(protocols[entry.Name], was.protocol)}
		h.offers[entry.Name] = was
		o := clusterOffer(listing)
		o.Info.Name, o.Info.ProtocolVersion = entry.Name, was.protocol
		o.Terms, o.Service = termsOf(entry), entry.Service
		o.Terms.Asks = was.asks
		all[entry.Name] = o
	}
	maps.DeleteFunc(h.offers, func(server string, _ hostOffer) bool { _, ok := all[server]; return !ok })
	return all, changed
}

// clusterOffer returns the offer of a server to other nodes.
func clusterOffer(l registry.Listing) (o clusternode.Offer) {
	o.Info = session.Info{Version: l.Version, Look: l.Look, Capabilities: l.Capabilities, Instructions: l.Instructions}
	for _, t := range l.Tools {
		if t.Held {
			continue
		}
		definition := t.Definition
		if t.Doubt != "" { // others can't know why this router does not believe the hints
			definition = wire.DeleteMember(definition, "annotations")
		}
		o.Tools = append(o.Tools, definition)
	}
	for _, p := range l.Prompts {
		o.Prompts = append(o.Prompts, p.Definition)
	}
	for _, r := range l.Resources {
		o.Resources = append(o.Resources, r.Definition)
	}
	for _, t := range l.Templates {
		o.Templates = append(o.Templates, t.Definition)
	}
	for _, s := range l.Skills {
		o.Skills = append(o.Skills, s.Definition)
	}
	return o
}

// termsOf returns the terms for calls of a server. The timeout is the longest of its tools.
func termsOf(entry config.Server) clusternode.Terms {
	t := clusternode.Terms{Timeout: entry.Timeout, MaxConcurrent: entry.MaxConcurrent, Validate: string(entry.Validate), Retry: entry.Retry}
	for _, limit := range entry.ToolTimeouts {
		if limit == 0 || t.Timeout == 0 {
			t.Timeout = 0 // no limit
			break
		}
		t.Timeout = max(t.Timeout, limit)
	}
	return t
}

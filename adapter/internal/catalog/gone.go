package catalog

import (
	"slices"

	"github.com/mcp-metarouter/metarouter/registry"
)

// Bounds of the offers that are remembered of servers on nodes that are gone.
const (
	maxGone      = 2000
	maxGoneBytes = 64 << 20
)

// goneOffers are the last offers of servers on other nodes that are gone. The zero value is empty.
type goneOffers struct {
	offers map[string]goneOffer
	order  []string // the names, the oldest first
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
	kept := goneOffer{Offer: compared(o)}
	for i := range o.Tools {
		t := &o.Tools[i]
		kept.bytes += len(t.Definition) + len(t.Flat) + len(t.InputSchema) + len(t.ServerSchema) + len(t.Description)
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

// take removes the server's offer, and returns it.
func (g *goneOffers) take(server string) (o registry.Offer, ok bool) {
	kept, ok := g.offers[server]
	if !ok {
		return o, false
	}
	delete(g.offers, server)
	g.bytes -= kept.bytes
	g.order = slices.DeleteFunc(g.order, func(name string) bool { return name == server })
	return kept.Offer, true
}

// compared returns the parts of an offer with which the server's next offer is compared.
func compared(o registry.Offer) registry.Offer {
	return registry.Offer{Tools: o.Tools, LastSeen: o.LastSeen, Confirmed: o.Confirmed}
}

package catalog

import "github.com/mcp-metarouter/metarouter/registry"

// Bounds of the offers that are remembered of servers on nodes that are gone. If there are more, all
// are forgotten.
const (
	maxGone      = 2000
	maxGoneBytes = 64 << 20
)

// goneOffers are the last offers of servers on other nodes that are gone. The zero value is empty.
type goneOffers struct {
	offers map[string]registry.Offer
	bytes  int
}

func (g *goneOffers) put(server string, o registry.Offer) {
	g.take(server)
	size := sizeOf(o)
	if len(o.Tools) == 0 || size > maxGoneBytes {
		return
	}
	if g.offers == nil || len(g.offers) >= maxGone || g.bytes+size > maxGoneBytes {
		*g = goneOffers{offers: make(map[string]registry.Offer)}
	}
	g.offers[server] = compared(o)
	g.bytes += size
}

// take removes the server's offer, and returns it.
func (g *goneOffers) take(server string) (o registry.Offer, ok bool) {
	if o, ok = g.offers[server]; ok {
		delete(g.offers, server)
		g.bytes -= sizeOf(o)
	}
	return o, ok
}

// compared returns the parts of an offer with which the server's next offer is compared.
func compared(o registry.Offer) registry.Offer {
	return registry.Offer{Tools: o.Tools, LastSeen: o.LastSeen, Confirmed: o.Confirmed}
}

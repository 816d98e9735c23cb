//go:build linux

package cluster

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/mcp-metarouter/metarouter/test/mcptest"
	"github.com/mcp-metarouter/metarouter/test/natsserver"
)

// nap is an entry of a server that runs 8 calls at once, as one of a service.
func nap() map[string]any {
	return fake(map[string]any{"maxConcurrent": 8, "service": "nap"}, "-tools", "sleep")
}

// TestScale measures a server that takes 50 ms for a call, and 8 calls at a time, as one service on
// one, two and three nodes: once with a gateway that has none itself, and once with one that has.
func TestScale(t *testing.T) {
	wantsCost(t)
	for name, own := range map[string]entries{"the gateway has none": {}, "the gateway has one": {"nap": nap()}} {
		t.Run(name, func(t *testing.T) { scale(t, own) })
	}
}

func scale(t *testing.T, own entries) {
	hub := natsserver.Start(t)
	urls := []string{hub.URL()}
	gateway := newNode(t, "a", urls, own)
	all := []*node{gateway}
	for _, name := range []string{"b", "c", "d"}[:3-len(own)] {
		n := newNode(t, name, urls, entries{"nap": nap()})
		n.cluster["share"] = []string{"*"}
		all = append(all, n)
	}
	trustEachOther(all...)
	client := (*mcptest.HTTPClient)(nil)
	call := func(ctx context.Context, tool string, arguments any) error {
		_, err := client.Call(ctx, tool, arguments)
		return err
	}
	gateway.start()
	client = gateway.client()
	var rates []float64
	measure := func() {
		gateway.lists("nap__sleep")
		rates = append(rates, rateOf(t, call, "nap__sleep", map[string]any{"ms": 50}, 64, 5*time.Second))
	}
	if len(own) > 0 {
		measure()
	}
	for _, n := range all[1:] {
		n.start()
		mcptest.WaitFor(t, "node "+n.name+" to take calls", func() bool {
			return slices.ContainsFunc(gateway.seen(), func(i nodeInfo) bool { return i.Node == n.name && len(i.Servers) > 0 })
		})
		time.Sleep(time.Second) // until the gateway has learned what the node has
		measure()
	}
	for i, rate := range rates {
		share := rate / rates[0] / float64(i+1)
		t.Logf("%d places: %4.0f calls a second, %.2f of linear", i+1, rate, share)
		if share < 0.9 {
			t.Errorf("%d places reach %.2f of linear", i+1, share)
		}
	}
}

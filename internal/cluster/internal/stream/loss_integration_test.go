package stream

import (
	"errors"
	"testing"
	"time"

	"github.com/mcp-metarouter/metarouter/test/expect"
	"github.com/mcp-metarouter/metarouter/test/layer"
	"github.com/mcp-metarouter/metarouter/test/natsserver"
)

// NATS says that no router subscribes to a subject of a killed one.
func TestKilledPeer(t *testing.T) {
	layer.Integration(t)
	var a *Conn
	for range 10 { // on a busy machine, the silence may be over before NATS says it
		near, far := pair(t)
		a, _ = dial(t, near, far)
		far.nc.Close()
		if until(t, "the stream ends", func() bool { return errorOf(a) != nil }); !errors.Is(errorOf(a), ErrSilent) {
			break
		}
	}
	ended(t, a, ErrUnreachable)
}

func relayed(t *testing.T) (near, far *node, relay *natsserver.Relayed) {
	s := natsserver.Start(t, natsserver.Options{NoJetStream: true})
	relay = natsserver.Relay(t, s.Address(), natsserver.RelayOptions{})
	return listen(t, s.URL()), listen(t, relay.URL()), relay
}

func TestFrozenPeer(t *testing.T) {
	layer.Integration(t)
	near, far, relay := relayed(t)
	a, b := dial(t, near, far)
	relay.Cut()
	ended(t, a, ErrSilent)
	ended(t, b, ErrSilent)
	relay.Heal()
	a, b = dial(t, near, far)
	exchange(t, a, b)
}

// A request that waited while the network was cut is lapsed, and one that comes later is not.
func TestLapsed(t *testing.T) {
	layer.Integration(t)
	near, far, relay := relayed(t)
	var a, b *Conn
	hasEnded := func() bool { return errorOf(a) != nil || errorOf(b) != nil }
	for range 10 { // on a busy machine, the network may be cut until the stream ends
		a, b = dial(t, near, far)
		relay.Cut()
		until(t, "both ends lapse", func() bool { return a.Lapsed() && b.Lapsed() })
		relay.Heal()
		if until(t, "both ends go on", func() bool { return !a.Lapsed() && !b.Lapsed() || hasEnded() }); !hasEnded() {
			break
		}
	}
	exchange(t, a, b)
	if d := time.Until(a.Local(time.Now().Add(time.Hour))); d < 59*time.Minute || d > 61*time.Minute {
		t.Error(d)
	}
}

func TestNATSRestarts(t *testing.T) {
	layer.Integration(t)
	s := natsserver.Start(t, natsserver.Options{NoJetStream: true})
	near, far := listen(t, s.URL()), listen(t, s.URL())
	a, b := dial(t, near, far)
	s.Restart()
	ended(t, a, ErrDisconnected)
	ended(t, b, ErrDisconnected)
	until(t, "both connect again", func() bool { return near.nc.IsConnected() && far.nc.IsConnected() })
	for _, n := range []*node{near, far} {
		expect.OK(t, n.nc.FlushTimeout(patience))
	}
	a, b = dial(t, near, far)
	exchange(t, a, b)
}

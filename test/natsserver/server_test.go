package natsserver_test

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/mcp-metarouter/metarouter/test/expect"
	"github.com/mcp-metarouter/metarouter/test/natsserver"
)

func connect(t *testing.T, url string) *nats.Conn {
	t.Helper()
	c, err := nats.Connect(url, nats.MaxReconnects(-1), nats.ReconnectWait(20*time.Millisecond), nats.Timeout(time.Minute))
	expect.OK(t, err)
	t.Cleanup(c.Close)
	return c
}

func TestStop(t *testing.T) {
	s := natsserver.Start(t, natsserver.Options{NoJetStream: true})
	c := connect(t, s.URL())
	s.Stop()
	if err := c.FlushTimeout(100 * time.Millisecond); err == nil {
		t.Error("a halted server answers")
	}
	s.Continue()
	expect.OK(t, c.FlushTimeout(time.Minute))
}

func TestRelay(t *testing.T) {
	s := natsserver.Start(t, natsserver.Options{NoJetStream: true})
	r := natsserver.Relay(t, s.Address(), natsserver.RelayOptions{Delay: 20 * time.Millisecond, StallShare: 1, Stall: 30 * time.Millisecond})
	c := connect(t, r.URL())
	if took, err := c.RTT(); err != nil || took < 100*time.Millisecond {
		t.Errorf("a round trip took %v, %v", took, err)
	}
	r.Cut()
	if err := c.FlushTimeout(200 * time.Millisecond); err == nil {
		t.Error("a relay that is cut carries bytes")
	}
	r.Heal()
	expect.OK(t, c.FlushTimeout(time.Minute))
	r.Reset()
	for deadline := time.Now().Add(time.Minute); c.Stats().Reconnects == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the connection was not reset")
		}
	}
}

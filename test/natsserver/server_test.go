package natsserver_test

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/mcp-metarouter/metarouter/test/natsserver"
)

func connect(t *testing.T, url string) *nats.Conn {
	t.Helper()
	c, err := nats.Connect(url, nats.MaxReconnects(-1), nats.ReconnectWait(20*time.Millisecond), nats.Timeout(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func minute(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func bucket(t *testing.T, c *nats.Conn, replicas int) jetstream.KeyValue {
	t.Helper()
	js, err := jetstream.New(c)
	if err != nil {
		t.Fatal(err)
	}
	var kv jetstream.KeyValue
	for ctx := minute(t); ; { // a request that comes before the routes are complete is lost
		attempt, cancel := context.WithTimeout(ctx, 2*time.Second)
		kv, err = js.CreateKeyValue(attempt, jetstream.KeyValueConfig{Bucket: "b", Replicas: replicas})
		if err == nil {
			_, err = kv.PutString(attempt, "k", "v")
		}
		cancel()
		if err == nil {
			return kv
		}
		if ctx.Err() != nil {
			t.Fatal(err)
		}
	}
}

func TestServerKeepsItsData(t *testing.T) {
	s := natsserver.Start(t)
	kv := bucket(t, connect(t, s.URL()), 1)
	s.Kill()
	s.Restart()
	s.Restart()
	got(t, kv, "v")
}

func TestStop(t *testing.T) {
	s := natsserver.Start(t, natsserver.Options{NoJetStream: true})
	c := connect(t, s.URL())
	s.Stop()
	if err := c.FlushTimeout(100 * time.Millisecond); err == nil {
		t.Error("a halted server answers")
	}
	s.Continue()
	if err := c.FlushTimeout(time.Minute); err != nil {
		t.Error(err)
	}
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
	if err := c.FlushTimeout(time.Minute); err != nil {
		t.Error(err)
	}
	r.Reset()
	for deadline := time.Now().Add(time.Minute); c.Stats().Reconnects == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the connection was not reset")
		}
	}
}

// got checks the value. A request that comes before the server is ready is lost.
func got(t *testing.T, kv jetstream.KeyValue, want string) {
	t.Helper()
	for ctx := minute(t); ; {
		attempt, cancel := context.WithTimeout(ctx, 2*time.Second)
		entry, err := kv.Get(attempt, "k")
		cancel()
		if err == nil && string(entry.Value()) != want {
			t.Errorf("the value is %s, want %s", entry.Value(), want)
		}
		if err == nil {
			return
		}
		if ctx.Err() != nil {
			t.Fatal(err)
		}
	}
}

// put writes a value as soon as there is a leader. A request that comes during an election is lost.
func put(t *testing.T, js jetstream.JetStream, value string) {
	t.Helper()
	for ctx := minute(t); ; {
		attempt, cancel := context.WithTimeout(ctx, time.Second)
		kv, err := js.KeyValue(attempt, "b")
		if err == nil {
			_, err = kv.PutString(attempt, "k", value)
		}
		cancel()
		if err == nil {
			return
		}
		if ctx.Err() != nil {
			t.Fatal(err)
		}
	}
}

package natsserver_test

import (
	"slices"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/mcp-metarouter/metarouter/test/layer"
	"github.com/mcp-metarouter/metarouter/test/natsserver"
)

// The majority of a cluster goes on without a leader that is cut off, halted or killed.
func TestCluster(t *testing.T) {
	layer.Full(t)
	c := natsserver.StartCluster(t, 3)
	kv := bucket(t, connect(t, c.URLs()[0]), 3)
	const stream = "KV_b"
	first := c.Leader(stream)

	c.Partition(first)
	other := connect(t, c.URLs()[(first+1)%3])
	js, err := jetstream.New(other)
	if err != nil {
		t.Fatal(err)
	}
	put(t, js, "partition")
	c.Heal()

	halted := c.Leader("")
	c.Stop(halted)
	c.Continue(halted)

	second := c.Leader(stream)
	c.Kill(second)
	url := slices.Delete(c.URLs(), second, second+1)[0]
	js, err = jetstream.New(connect(t, url))
	if err != nil {
		t.Fatal(err)
	}
	put(t, js, "kill")
	c.Restart(second)
	got(t, kv, "kill")
}

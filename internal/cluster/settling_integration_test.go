package cluster

import (
	"testing"

	"github.com/mcp-metarouter/metarouter/test/expect"
	"github.com/mcp-metarouter/metarouter/test/layer"
)

// A node that can't join says why its servers are not known, at once.
func TestSettledWithoutACluster(t *testing.T) {
	layer.Integration(t)
	n := New(Options{})
	n.set(nil, "the key can't be read")
	expect.Error(t, n.Settled(t.Context()), "the key can't be read", "it says")
}

package cluster

import (
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/test/layer"
)

// A node that can't join says why its servers are not known, at once.
func TestSettledWithoutACluster(t *testing.T) {
	layer.Integration(t)
	n := New(Options{})
	n.set(nil, "the key can't be read")
	if err := n.Settled(t.Context()); err == nil || !strings.Contains(err.Error(), "the key can't be read") {
		t.Errorf("it says %v", err)
	}
}

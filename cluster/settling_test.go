package cluster

import (
	"strings"
	"testing"
)

// A node that can't join says why its servers are not known, at once.
func TestSettledWithoutACluster(t *testing.T) {
	n := New(Options{})
	n.set(nil, "the key can't be read")
	if err := n.Settled(t.Context()); err == nil || !strings.Contains(err.Error(), "the key can't be read") {
		t.Errorf("it says %v", err)
	}
}

package server

import (
	"testing"

	"go.uber.org/zap"
)

// The requests of a node, and of all nodes, are bounded in number and in bytes.
func TestNodeQuotas(t *testing.T) {
	for name, of := range map[string]struct{ size, each, all int }{
		"number": {1, maxNodeRequests, maxAllNodeRequests}, "bytes": {16 << 20, maxNodeBytes / (16 << 20), maxAllNodeBytes / (16 << 20)},
	} {
		q := newNodeServers(zap.NewNop()).quota
		taken := make(map[string]int)
		for _, node := range []string{"a", "b", "c", "d", "e"} {
			for q.Take(node, of.size) {
				taken[node]++
				taken[""]++
			}
		}
		if taken["a"] != of.each || taken[""] != of.all {
			t.Errorf("%s: %v", name, taken)
		}
		q.Release("a", of.size)
		if of.size > 1 && q.Take("e", 2*of.size) || !q.Take("e", of.size) {
			t.Errorf("%s: a request that has ended counts, or one that was refused", name)
		}
	}
}

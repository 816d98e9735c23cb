package server

import (
	"testing"

	"github.com/mcp-metarouter/metarouter/server/internal/budget"
	"go.uber.org/zap"
)

// The requests of a node, and of all nodes, are bounded in number and in bytes.
func TestNodeQuotas(t *testing.T) {
	for name, of := range map[string]struct{ size, each, all int }{"number": {1, 1024, 4096}, "bytes": {16 << 20, 8, 16}} {
		q := newNodeServers(zap.NewNop()).budget
		taken := make(map[string]int)
		for _, node := range []string{"a", "b", "c", "d", "e"} {
			for q.Take(budget.Requests, node, of.size) == nil {
				taken[node]++
				taken[""]++
			}
		}
		if taken["a"] != of.each || taken[""] != of.all {
			t.Errorf("%s: %v", name, taken)
		}
		q.Release(budget.Requests, "a", of.size)
		if of.size > 1 && q.Take(budget.Requests, "e", 2*of.size) == nil || q.Take(budget.Requests, "e", of.size) != nil {
			t.Errorf("%s: a request that has ended counts, or one that was refused", name)
		}
	}
}

package cluster_test

import (
	"slices"
	"testing"

	"go.uber.org/zap/zaptest"

	"github.com/mcp-metarouter/metarouter/internal/clusternode"
	"github.com/mcp-metarouter/metarouter/test/expect"
	"github.com/mcp-metarouter/metarouter/test/layer"
	"github.com/mcp-metarouter/metarouter/test/natsserver"
)

// Of several routers with one key, one shares. When it ends, another one does.
func TestOneShares(t *testing.T) {
	layer.Integration(t)
	s := natsserver.Start(t)
	fileA, keyA := newKey(t)
	fileB, keyB := newKey(t)
	log := zaptest.NewLogger(t)
	ann := newRouter(t, log.Named("ann"), fileA, keyA)
	ann.run(t, configOf(s, "ann", keyB))
	first, second := newRouter(t, log.Named("first"), fileB, keyB), newRouter(t, log.Named("second"), fileB, keyB)
	first.offer(1, "gpu")
	first.run(t, configOf(s, "box", keyA))
	ann.has(t, "gpu@box: gpu_0")
	second.offer(2, "gpu")
	second.run(t, configOf(s, "box", keyA))
	ann.until(t, "second router", func() bool {
		return slices.ContainsFunc(ann.Nodes(), func(n clusternode.Info) bool { return n.Key == keyB && n.Routers == 2 })
	})
	ann.has(t, "gpu@box: gpu_0")
	for _, r := range []*router{first, second} {
		r.until(t, "own server", func() bool {
			self := r.Nodes()[0]
			return self.Self && slices.Equal(self.Servers, []string{"gpu"}) && self.Routers == 2
		})
		expect.Equal(t, len(r.tools()), 0, "it uses its own servers by way of the cluster")
	}
	first.stop()
	ann.has(t, "gpu@box: gpu_0 gpu_1")
}

// Known servers stay while JetStream has no leader, and new announcements come later.
func TestNoLeader(t *testing.T) {
	layer.Integration(t)
	c := natsserver.StartCluster(t, 3)
	ann, box := twoRouters(t)
	box.offer(1, "gpu")
	ann.run(t, configOf(c.Server(0), "ann", box.key))
	box.run(t, configOf(c.Server(0), "box", ann.key))
	ann.has(t, "gpu@box: gpu_0")
	c.Stop(1)
	c.Stop(2) // no quorum

	if answer, err := ann.dial(t, "gpu@box").call("x"); err != nil { // calls need nothing of JetStream
		t.Error(answer, err)
	}
	box.offer(2, "gpu", "disk")
	box.until(t, "problem", func() bool { return len(box.Report().Problems) > 0 })
	ann.has(t, "gpu@box: gpu_0")
	if answer, err := ann.dial(t, "gpu@box").call("x"); err != nil {
		t.Error(answer, err)
	}
	c.Continue(1)
	c.Continue(2)
	ann.has(t, "disk@box: disk_0 disk_1", "gpu@box: gpu_0 gpu_1")
	box.until(t, "recovery", func() bool { return len(box.Report().Problems) == 0 })
}

//go:build linux

package cluster

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/mcp-metarouter/metarouter/test/mcptest"
	"github.com/mcp-metarouter/metarouter/test/natsserver"
)

// A router without a cluster runs nothing of it.
func TestWithoutCluster(t *testing.T) {
	t.Parallel()
	hub := natsserver.Start(t)
	with := newNode(t, "with", []string{hub.URL()}, entries{})
	without := newNode(t, "without", nil, entries{"bank": bank("without", filepath.Join(t.TempDir(), "ledger"))})
	without.cluster = nil
	without.write()
	for n, want := range map[*node]bool{with: true, without: false} {
		n.start()
		if !want {
			n.lists("bank__" + read)
		} else {
			mcptest.WaitFor(t, "the node to see itself", func() bool { return len(n.seen()) == 1 })
		}
		n.signal(syscall.SIGQUIT) // the Go runtime writes all goroutines
		<-n.process.Done
		dump := n.process.Stderr()
		if !strings.Contains(dump, "goroutine ") {
			t.Fatalf("there is no list of goroutines: %s", tail(dump, 1000))
		}
		if got := strings.Contains(dump, "metarouter/cluster.") || strings.Contains(dump, "nats-io/"); got != want {
			t.Errorf("node %s has goroutines of a cluster: %v, want %v\n%s", n.name, got, want, tail(dump, 20000))
		}
	}
}

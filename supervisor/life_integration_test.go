//go:build unix

package supervisor

import (
	"testing"

	"github.com/mcp-metarouter/metarouter/internal/status"
	"github.com/mcp-metarouter/metarouter/test/layer"
	"github.com/mcp-metarouter/metarouter/test/mcptest"
)

func TestStubbornServersAndTheirChildren(t *testing.T) {
	layer.Integration(t)
	t.Parallel()
	pids := pidFile(t)
	f := supervise(t,
		fake("stubborn", "-ignore-eof", "-ignore-term", "-pid-file", pids),
		fake("parent", "-grandchild", "-grandchild-setsid", "-pid-file", pids),
		fake("crasher", "-tools", "crash", "-grandchild", "-grandchild-setsid", "-pid-file", pids),
	)
	for _, name := range []string{"stubborn", "parent", "crasher"} {
		f.await(name, status.Ready)
	}
	first := mcptest.PIDs(t, pids)
	f.call("crasher", "crash", "{}")
	mcptest.WaitFor(t, "the crashed server to be back", func() bool { return f.state("crasher").Restarts == 1 && f.state("crasher").State == status.Ready })
	crashed := 0
	mcptest.WaitFor(t, "what the crashed server left to be gone", func() bool {
		crashed = 0
		for _, pid := range first {
			if !mcptest.Alive(pid) {
				crashed++
			}
		}
		return crashed == 3
	})
	f.stop()
	mcptest.Gone(t, pids, 10)
}

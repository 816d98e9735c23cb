//go:build linux

package keeper

import (
	"os/exec"
	"testing"

	"github.com/mcp-metarouter/metarouter/test/expect"
	"github.com/mcp-metarouter/metarouter/test/layer"
)

// A child counts until it is reaped: what it has left may have been looked at before it died, when
// it was no child of the guard process yet.
func TestDeadChildCounts(t *testing.T) {
	layer.Integration(t)
	cmd := exec.Command("true")
	expect.OK(t, cmd.Start())
	pid := cmd.Process.Pid
	WaitDead(pid)
	l := Lead(pid)
	if !l.Ended() {
		t.Error("it has not ended")
	}
	if !children()[pid] {
		t.Error("it does not count")
	}
	cmd.Wait()
	if children()[pid] {
		t.Error("it counts when it is reaped")
	}
}

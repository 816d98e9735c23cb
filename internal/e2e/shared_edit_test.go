//go:build linux

package e2e

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/mcp-metarouter/metarouter/internal/mcptest"
)

// Clients that shared a router share the next one too if that is killed, though the
// configuration was edited since they came.
func TestSharedAgainAfterAnEdit(t *testing.T) {
	t.Parallel()
	servers := entries{"s": fake("-tools", "pid")}
	s := prepare(t, servers, nil)
	one, two := s.serve("--mode", "direct"), s.serve("--mode", "direct")
	pid := mustCallWhenUp(t, one, "s:pid").text()
	if other := mustCallWhenUp(t, two, "s:pid").text(); other != pid {
		t.Fatal("two clients of the same configuration share no router")
	}
	servers["new"] = fake("-tools", "echo")
	s.write(servers, nil)
	mustCallWhenUp(t, one, "new:echo")

	if err := syscall.Kill(parent(t, pid), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	next := mustCallWhenUp(t, one, "s:pid").text()
	if other := mustCallWhenUp(t, two, "s:pid").text(); other != next || next == pid {
		t.Errorf("after the shared router was killed, one client's server is %s and the other's %s; before, %s was both's", next, other, pid)
	}
	for _, c := range []*mcptest.Client{one, two} {
		if strings.Contains(c.Stderr(), "process of its own") {
			t.Errorf("a client shares no more:\n%s", c.Stderr())
		}
	}
}

// parent is the process that started another one.
func parent(t *testing.T, pid string) (id int) {
	t.Helper()
	b, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		t.Fatal(err)
	}
	var state string
	fmt.Sscan(string(b[strings.LastIndexByte(string(b), ')')+1:]), &state, &id)
	return id
}

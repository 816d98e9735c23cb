//go:build linux

package e2e

import (
	"fmt"
	"syscall"
	"testing"

	"github.com/mcp-metarouter/metarouter/test/mcptest"
)

// approveOne has a call that needs approval between two that don't. Its tool and how long it takes, in milliseconds, are missing.
const approveOne = `const a = await call("s:ledger_read", {id: "before"});
const b = await call("s:%s", {id: "middle", ms: %d});
return [a, b, await call("s:ledger_read", {id: "after"})].join();`

// A script that waits for a person survives its router.
func TestScriptSurvivesItsRouter(t *testing.T) {
	t.Parallel()
	code := fmt.Sprintf(approveOne, "ledger_charge", 0)
	for _, transport := range []string{"http", "stdio"} {
		t.Run(transport, func(t *testing.T) {
			t.Parallel()
			s, c, restart := newRestarting(t, transport, nil)
			a := suspended(t, c, code, 1)
			restart(syscall.SIGKILL)
			for i := range 2 { // also again, after the end
				if i > 0 {
					restart(syscall.SIGTERM) // no third time: the client may then serve itself
				}
				runScript(t, c, code, a.answers("accept")).gives(t, "before,middle,after")
				s.executed("before", "middle", "after")
			}
		})
	}
}

// newRestarting returns a router with a modern client, and a function that ends the router by a signal and lets another one go on.
func newRestarting(t *testing.T, transport string, own map[string]any) (*scripting, mcptest.Requester, func(syscall.Signal)) {
	t.Helper()
	return newScripting(t, own).restarting(transport)
}

func (s *scripting) restarting(transport string) (*scripting, mcptest.Requester, func(syscall.Signal)) {
	s.t.Helper()
	if transport == "stdio" {
		return s, s.overStdio(), s.kill
	}
	address := mcptest.FreeAddress(s.t)
	router := s.serveAt(address)
	return s, s.overHTTP("http://" + address + "/mcp"), func(signal syscall.Signal) {
		router.Cmd.Process.Signal(signal)
		<-router.Done
		router = s.serveAt(address)
	}
}

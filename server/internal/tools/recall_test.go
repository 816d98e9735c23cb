package tools

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestMemoryIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m memory
		for i := range 3 * maxClients {
			m.note(i, "task", []string{"a:b"})
		}
		if len(m.clients) > maxClients {
			t.Errorf("%d clients are remembered", len(m.clients))
		}
		for i := range 2 * maxRecalled {
			m.note("x", fmt.Sprint(i), []string{fmt.Sprint("tool", i%2)})
		}
		if got := m.recall("x", "tool0"); got != fmt.Sprint(2*maxRecalled-2) || len(m.clients["x"]) != maxRecalled {
			t.Errorf("recalls %q of %d", got, len(m.clients["x"]))
		}
		if m.note("y", strings.Repeat("x", 1<<20), []string{"tool"}); len(m.recall("y", "tool")) != maxRecalledTask {
			t.Errorf("%d bytes of a task are kept", len(m.recall("y", "tool")))
		}
		time.Sleep(recallTime + time.Second)
		if got := m.recall("x", "tool0"); got != "" {
			t.Errorf("recalls %q after a while", got)
		}
		m.forget("x")
	})
}

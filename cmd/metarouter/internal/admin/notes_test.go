package admin

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/status"
	"github.com/mcp-metarouter/metarouter/server"
)

// A router that serves clients notes once an hour which servers do not work, and whenever a request needs it.
func TestNoteFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := New(config.Config{}, Options{})
		q := &query{API: a}
		down := func(names ...string) (all []status.Server) {
			for _, name := range names {
				all = append(all, status.Server{Status: status.Status{Name: name, State: status.Failed, LastError: "x"}})
			}
			return all
		}
		expect := func(want int, needed bool, names ...string) {
			t.Helper()
			q.notes = nil
			if q.noteFailed(down(names...), needed); len(q.notes) != want {
				t.Errorf("%q", q.notes)
			}
		}
		expect(1, false, "a")
		expect(1, false, "a") // it serves no client
		a.mcp = new(server.Servers)
		expect(0, false, "a")
		expect(1, true, "a")
		expect(1, false, "a", "b")
		expect(0, false)
		expect(1, false, "a")
		time.Sleep(2 * time.Hour)
		expect(1, false, "a")
		expect(0, false, "a")
	})
}

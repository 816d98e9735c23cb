package cluster

import (
	"testing"
	"time"

	"github.com/mcp-metarouter/metarouter/cluster/internal/directory"
)

// A server that changes again and again is learned once a second; the first change counts at once.
func TestFlapping(t *testing.T) {
	m, now := &member{}, time.Now()
	changed := spec{Server: directory.Server{Name: "gpu", Tools: 2}}
	for _, tt := range []struct {
		last time.Time
		wait bool
	}{{time.Time{}, false}, {now.Add(-2 * firstPause), false}, {now, true}} {
		r := &remote{spec: spec{Server: directory.Server{Name: "gpu", Tools: 1}}, current: true, last: tt.last}
		m.replace(r, changed)
		if wait := r.next.After(now); r.current || wait != tt.wait {
			t.Errorf("learned %s ago: it waits: %v", now.Sub(tt.last), wait)
		}
	}
}

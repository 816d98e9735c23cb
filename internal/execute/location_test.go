package execute

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/status"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/registry"
)

// A read-only call that gets no answer turns to a stand-in; any other does not.
func TestTurnToStandIn(t *testing.T) {
	died := fmt.Errorf("%w: it was killed", session.ErrClosed)
	refused := &session.Error{Code: -32000, Message: "no"}
	const hangs, fails = "hangs", `{"content":[],"isError":true}`
	type server struct {
		state    status.State
		priority int
		busy     int   // calls that run
		ends     any   // how calls end: nil, an error, hangs, or a result
		policy   Retry // of repeating calls
	}
	for _, test := range []struct {
		name     string
		writes   bool
		servers  map[string]server // a is called; all stand in for each other
		called   string
		degraded string
	}{
		{"all is well", false, map[string]server{"a": {}, "b": {}}, "a", "false"},
		{"it dies", false, map[string]server{"a": {ends: died}, "b": {}}, "a b", "true"},
		{"it dies while writing", true, map[string]server{"a": {ends: died}, "b": {}}, "a", ""},
		{"it is late", false, map[string]server{"a": {ends: hangs}, "b": {}}, "a b", "true"},
		{"it is late while writing", true, map[string]server{"a": {ends: hangs}, "b": {}}, "a", ""},
		{"it is late, and may not be asked again", false, map[string]server{"a": {ends: hangs, policy: NeverRetry}, "b": {}}, "a", ""},
		{"the tool fails", false, map[string]server{"a": {ends: fails}, "b": {}}, "a", "false"},
		{"the server refuses", false, map[string]server{"a": {ends: refused}, "b": {}}, "a", ""},
		{"it is down", false, map[string]server{"a": {state: status.Failed}, "b": {}}, "b", "true"},
		{"all are down", false, map[string]server{"a": {state: status.Failed}, "b": {state: status.Restarting}}, "a", "false"},
		{"three places at most", false, map[string]server{"a": {ends: hangs}, "b": {ends: hangs}, "c": {ends: hangs}, "d": {}}, "a b c", ""},
		{"those that are up first", false, map[string]server{"a": {ends: died}, "b": {state: status.Failed, priority: 2}, "c": {state: status.Starting, priority: 1}, "d": {}}, "a d", "true"},
		{"then by priority", false, map[string]server{"a": {ends: died}, "b": {}, "c": {priority: 1, busy: 1}}, "a c", "true"},
		{"unless it is full", false, map[string]server{"a": {ends: died}, "b": {}, "c": {priority: 1, busy: 2}}, "a b", "true"},
		{"then by load", false, map[string]server{"a": {ends: died}, "b": {busy: 1}, "c": {}}, "a c", "true"},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var called []string
				schemas, servers := make(map[string]string), make(pool)
				for name, s := range test.servers {
					schemas[name] = object
					p := Policy{Timeout: time.Second, MaxConcurrent: 2, Retry: s.policy, Location: NewLocation(s.priority, nil)}
					for other := range test.servers {
						if other != name {
							p.StandIns = append(p.StandIns, other)
						}
					}
					slices.Sort(p.StandIns)
					servers[name] = &stub{policy: p, state: s.state, call: func(ctx context.Context, _ json.RawMessage) (json.RawMessage, error) {
						called = append(called, name)
						switch ends := s.ends.(type) {
						case error:
							return nil, ends
						case string:
							if ends == hangs {
								return late(ctx, nil)
							}
							return json.RawMessage(ends), nil
						}
						return json.RawMessage(fine), nil
					}}
				}
				r := registered(t, schemas, func(find *registry.NormalizedTool) { find.Hints.ReadOnly = new(!test.writes) })
				e := newExecutor(r, servers)
				for name, s := range test.servers {
					e.limiters.of(name).active = s.busy
				}
				find, _ := r.Snapshot().Tool("a:find")
				result, _ := e.Execute(t.Context(), Call{Tool: find})
				degraded := ""
				if result.Tool != nil {
					degraded = string(wire.Member(wire.Member(result.JSON, "_meta"), "degraded"))
				}
				if strings.Join(called, " ") != test.called || degraded != test.degraded {
					t.Errorf("called %q, answered %s", called, result.JSON)
				}
			})
		})
	}
}

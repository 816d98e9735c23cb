package admin

import (
	"cmp"
	"strings"
	"sync"

	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/telemetry"
	"github.com/mcp-metarouter/metarouter/internal/execute"
	"github.com/mcp-metarouter/metarouter/internal/plain"
	"github.com/mcp-metarouter/metarouter/internal/prose"
	"github.com/mcp-metarouter/metarouter/selector"
)

const (
	keptCalls = 200 // calls that a page gets
	maxShown  = 500 // bytes of a name or fault
)

// A callStats keeps the last calls.
type callStats struct {
	mu    sync.Mutex // guards the fields below, but mask
	last  int64      // Seq of the last call
	calls [keptCalls]endedCall

	mask *telemetry.Mask // hides secrets in the descriptions of failures
}

// Executed implements [selector.Observer].
func (cs *callStats) Executed(e selector.Execution) {
	c := endedCall{
		Time: e.Began, Trace: e.Trace, Script: e.Script, Client: shortened(e.Client), Principal: e.Principal, Profile: e.Profile,
		Server: cmp.Or(e.Tool.Server, "metarouter"), Tool: cmp.Or(e.Tool.Name, e.Tool.ID), MS: float64(e.Took.Microseconds()) / 1000,
		In: len(e.Arguments), Out: len(e.Result), Attempts: e.Attempts, Outcome: e.Outcome, Fault: cs.fault(e), Cached: e.Cached,
	}
	if e.Answered != nil && e.Answered.ID != e.Tool.ID {
		c.Answered = e.Answered.ID
	}
	cs.mu.Lock()
	defer cs.mu.Unlock()
	cs.last++
	c.Seq = cs.last
	cs.calls[c.Seq%keptCalls] = c
}

// Searched implements [selector.Observer].
func (*callStats) Searched(selector.Search) {}

// fault returns the reason of a failure, without secrets. If the tool itself reports the failure, the
// reason is the first line of its result that is no heading such as "### Error", which is shown on the page and never logged.
func (cs *callStats) fault(e selector.Execution) string {
	const most = 64 << 10 // bytes; a longer result is not read
	said := e.Fault
	if e.Outcome == execute.ToolError && len(e.Result) <= most {
		for line := range strings.Lines(strings.TrimSpace(selector.Result{JSON: e.Result}.Text())) {
			if said = strings.TrimSpace(line); said != "" && !strings.HasPrefix(strings.TrimLeft(said, "#"), " ") {
				break
			}
		}
	}
	if said == "" {
		return ""
	}
	return shortened(cs.mask.Text(plain.Text(said[:min(len(said), 2*maxShown)])))
}

// shortened returns at most maxShown bytes of a text.
func shortened(text string) string { return prose.Cut(strings.ToValidUTF8(text, ""), maxShown) }

// since returns the calls after the call with that number, and how many more it left out.
func (cs *callStats) since(seq int64) (calls []endedCall, skipped int) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	first := max(seq+1, cs.last-keptCalls+1, 1)
	for n := first; n <= cs.last; n++ {
		calls = append(calls, cs.calls[n%keptCalls])
	}
	return calls, int(first - seq - 1)
}

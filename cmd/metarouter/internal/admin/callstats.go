package admin

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/telemetry"
	"github.com/mcp-metarouter/metarouter/internal/execute"
	"github.com/mcp-metarouter/metarouter/internal/plain"
	"github.com/mcp-metarouter/metarouter/selector"
)

const (
	keptCalls     = 200 // calls that a page gets
	keptSeconds   = 300 // seconds for which calls are counted
	keptLatencies = 40  // latencies of each server
	maxUpdate     = 100 // calls in one update
)

var bounds = []float64{1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 30000}

// A callStats keeps the last calls and counts the calls of the last minutes.
type callStats struct {
	mu        sync.Mutex // guards the fields below, but mask
	last      int64      // Seq of the last call
	calls     [keptCalls]endedCall
	seconds   [keptSeconds]counted
	latencies map[string][]float64 // latencies of the last calls, ms, by server; the oldest first

	mask *telemetry.Mask // hides secrets in the descriptions of failures
}

// A counted has the calls of a second, and how many took so long.
type counted struct {
	second
	counts [15]int // as in a histogram
}

// Executed implements [selector.Observer].
func (cs *callStats) Executed(e selector.Execution) {
	c := endedCall{
		Time: e.Began, Trace: e.Trace, Script: e.Script, Client: shortened(e.Client), Principal: e.Principal, Profile: e.Profile, Server: e.Tool.Server, Tool: cmp.Or(e.Tool.Name, e.Tool.ID), MS: milliseconds(e.Took),
		In: len(e.Arguments), Out: len(e.Result), Attempts: e.Attempts, Outcome: e.Outcome, Fault: cs.fault(e), Cached: e.Cached,
	}
	if c.Server == "" {
		c.Server = ownServer
	}
	server := c.Server
	if e.Answered != nil && e.Answered.ID != e.Tool.ID {
		c.Answered, server = e.Answered.ID, e.Answered.Server
	}
	ended := max(0, e.Began.Add(e.Took).Unix())
	cs.mu.Lock()
	defer cs.mu.Unlock()
	cs.last++
	c.Seq = cs.last
	cs.calls[c.Seq%keptCalls] = c

	s := &cs.seconds[ended%keptSeconds]
	if s.Unix != ended {
		*s = counted{second: second{Unix: ended}}
	}
	if e.Outcome == execute.OK {
		s.OK++
	} else {
		s.Failed++
	}
	i, exact := slices.BinarySearch(bounds, c.MS)
	if exact {
		i++ // a bound is the lowest value of the next count
	}
	s.counts[i]++

	if cs.latencies == nil {
		cs.latencies = make(map[string][]float64)
	}
	last := append(cs.latencies[server], c.MS)
	cs.latencies[server] = slices.Delete(last, 0, max(0, len(last)-keptLatencies))
}

// ownServer is the name that stands for the router in calls of its own tools.
const ownServer = "metarouter"

// Searched implements [selector.Observer].
func (*callStats) Searched(selector.Search) {}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

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

const maxShown = 500 // bytes of a name or fault

// shortened cuts a text after maxShown bytes.
func shortened(text string) string {
	if len(text) <= maxShown {
		return strings.ToValidUTF8(text, "")
	}
	return strings.ToValidUTF8(text[:maxShown], "") + "…"
}

// since returns the calls after the call with that number, and how many more it left out.
func (cs *callStats) since(seq int64) (calls []endedCall, skipped int) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	first := max(seq+1, cs.last-maxUpdate+1, 1)
	for n := first; n <= cs.last; n++ {
		calls = append(calls, cs.calls[n%keptCalls])
	}
	return calls, int(first - seq - 1)
}

// rates returns the kept seconds from the given one until now. If the clock was set back, so that the given
// second is in the future, it returns all.
func (cs *callStats) rates(from, now int64) []second {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	var all []second
	if from > now {
		from = 0
	}
	now = max(now, keptSeconds)
	for t := max(from, now-keptSeconds+1); t < now; t++ {
		s := cs.seconds[t%keptSeconds].second
		if s.Unix != t {
			s = second{Unix: t}
		}
		all = append(all, s)
	}
	return all
}

// histogram counts the calls of the last minutes.
func (cs *callStats) histogram(now int64) histogram {
	h := histogram{Bounds: bounds, Counts: make([]int, len(bounds)+1)}
	cs.mu.Lock()
	for _, s := range cs.seconds {
		if age := now - s.Unix; age >= 0 && age < keptSeconds {
			for i, n := range s.counts {
				h.Counts[i] += n
			}
		}
	}
	cs.mu.Unlock()
	h.P50, h.P95, h.P99 = h.quantile(.5), h.quantile(.95), h.quantile(.99)
	return h
}

// quantile estimates the time within which the share of the calls ended, as if the calls
// between two bounds were spread evenly.
func (h histogram) quantile(share float64) float64 {
	total := 0
	for _, n := range h.Counts {
		total += n
	}
	if total == 0 {
		return 0
	}
	rest := share * float64(total)
	low := 0.0
	for i, bound := range h.Bounds {
		n := float64(h.Counts[i])
		if n > 0 && rest <= n {
			return low + (bound-low)*rest/n
		}
		rest -= n
		low = bound
	}
	return low // or more, since the last count has no upper bound
}

// latenciesOf returns the latencies of the server's last calls, never nil.
func (cs *callStats) latenciesOf(server string) []float64 {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	return append([]float64{}, cs.latencies[server]...)
}

func (cs *callStats) forget(gone func(server string) bool) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	for server := range cs.latencies {
		if server != ownServer && gone(server) {
			delete(cs.latencies, server)
		}
	}
}

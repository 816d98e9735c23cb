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
	keptCalls   = 200 // calls that a page gets
	keptSeconds = 300 // seconds for which calls are counted
	slotSeconds = 10  // seconds in one slot of the histogram
	keptTrail   = 40  // latencies that are kept for each server
	maxUpdate   = 100 // calls in one update
)

// bounds are the bounds of the histogram, in milliseconds.
var bounds = []float64{1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 30000}

// A board keeps the last calls and counts the calls of the last minutes.
type board struct {
	mu      sync.Mutex // guards the fields below, but mask
	last    int64      // Seq of the last call
	calls   [keptCalls]call
	seconds [keptSeconds]second
	slots   [keptSeconds / slotSeconds]slot
	trails  map[string]*trail // by server

	mask telemetry.Mask // hides secrets in the descriptions of failures
}

// A slot counts the calls of slotSeconds by how long they took.
type slot struct {
	number int64 // of the slot since 1970
	counts [15]int
}

// A trail keeps the latencies of a server's last calls.
type trail struct {
	n      int // calls in all
	recent [keptTrail]float64
}

func (t *trail) add(ms float64) {
	t.recent[t.n%keptTrail] = ms
	t.n++
}

// list returns the latencies, the oldest first, never nil.
func (t *trail) list() []float64 {
	if t == nil {
		return []float64{}
	}
	if t.n <= keptTrail {
		return slices.Clone(t.recent[:t.n])
	}
	at := t.n % keptTrail
	return slices.Concat(t.recent[at:], t.recent[:at])
}

// Executed implements [selector.Observer].
func (b *board) Executed(e selector.Execution) {
	c := call{
		Time: e.Began, Trace: e.Trace, Client: brief(e.Client), Principal: e.Principal, Profile: e.Profile, Server: e.Tool.Server, Tool: cmp.Or(e.Tool.Name, e.Tool.ID), MS: milliseconds(e.Took),
		In: len(e.Arguments), Out: len(e.Result), Attempts: e.Attempts, Outcome: e.Outcome, Fault: b.fault(e), Cached: e.Cached,
	}
	if c.Server == "" {
		c.Server = ownServer
	}
	server := c.Server
	if e.Answered != nil && e.Answered.ID != e.Tool.ID {
		c.Answered, server = e.Answered.ID, e.Answered.Server
	}
	ended := max(0, e.Began.Add(e.Took).Unix())
	b.mu.Lock()
	defer b.mu.Unlock()
	b.last++
	c.Seq = b.last
	b.calls[c.Seq%keptCalls] = c

	s := &b.seconds[ended%keptSeconds]
	if s.Unix != ended {
		*s = second{Unix: ended}
	}
	if e.Outcome == execute.OK {
		s.OK++
	} else {
		s.Failed++
	}

	number := ended / slotSeconds
	h := &b.slots[number%int64(len(b.slots))]
	if h.number != number {
		*h = slot{number: number}
	}
	i, exact := slices.BinarySearch(bounds, c.MS)
	if exact {
		i++ // a bound is the lowest value of the next count
	}
	h.counts[i]++

	if b.trails[server] == nil {
		if b.trails == nil {
			b.trails = make(map[string]*trail)
		}
		b.trails[server] = new(trail)
	}
	b.trails[server].add(c.MS)
}

// ownServer is the name that stands for the router in calls of its own tools.
const ownServer = "metarouter"

// Searched implements [selector.Observer].
func (*board) Searched(selector.Search) {}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// fault returns what failed, without secrets. If a tool reports the failure in its result,
// that is the first line of the result, which is shown on the page and never logged.
func (b *board) fault(e selector.Execution) string {
	const most = 64 << 10 // bytes; a longer result is not read
	said := e.Fault
	if e.Outcome == execute.ToolError && len(e.Result) <= most {
		said, _, _ = strings.Cut(strings.TrimSpace(selector.Result{JSON: e.Result}.Text()), "\n")
	}
	if said == "" {
		return ""
	}
	return brief(b.mask.Text(plain.Text(said[:min(len(said), 2*maxShown)])))
}

const maxShown = 500 // bytes of a name or fault

// brief cuts a text after maxShown bytes.
func brief(text string) string {
	if len(text) <= maxShown {
		return strings.ToValidUTF8(text, "")
	}
	return strings.ToValidUTF8(text[:maxShown], "") + "…"
}

// since returns the calls after the call with that number, and how many more it left out.
func (b *board) since(seq int64) (calls []call, skipped int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	first := max(seq+1, b.last-maxUpdate+1, 1)
	for n := first; n <= b.last; n++ {
		calls = append(calls, b.calls[n%keptCalls])
	}
	return calls, int(first - seq - 1)
}

// rates returns the seconds from the given one until now, at most those that are kept. If
// the clock was set back, so that the given second is in the future, it returns all.
func (b *board) rates(from, now int64) []second {
	b.mu.Lock()
	defer b.mu.Unlock()
	var all []second
	if from > now {
		from = 0
	}
	now = max(now, keptSeconds)
	for t := max(from, now-keptSeconds+1); t < now; t++ {
		s := b.seconds[t%keptSeconds]
		if s.Unix != t {
			s = second{Unix: t}
		}
		all = append(all, s)
	}
	return all
}

// histogram counts the calls of the last minutes by how long they took.
func (b *board) histogram(now int64) histogram {
	h := histogram{Bounds: bounds, Counts: make([]int, len(bounds)+1)}
	b.mu.Lock()
	for _, s := range b.slots {
		if age := now/slotSeconds - s.number; age >= 0 && age < int64(len(b.slots)) {
			for i, n := range s.counts {
				h.Counts[i] += n
			}
		}
	}
	b.mu.Unlock()
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
	rest := share * float64(total)
	low := 0.0
	for i, n := range h.Counts {
		if i == len(h.Bounds) {
			break
		}
		if rest <= float64(n) && n > 0 {
			return low + (h.Bounds[i]-low)*rest/float64(n)
		}
		rest -= float64(n)
		low = h.Bounds[i]
	}
	if total == 0 {
		return 0
	}
	return low // or more, since the last count has no upper bound
}

// trail returns the latencies of the server's last calls.
func (b *board) trail(server string) []float64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.trails[server].list()
}

// forget removes the latencies of removed servers.
func (b *board) forget(gone func(server string) bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for server := range b.trails {
		if server != ownServer && gone(server) {
			delete(b.trails, server)
		}
	}
}

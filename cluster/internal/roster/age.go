package roster

import (
	"time"

	"github.com/mcp-metarouter/metarouter/cluster/internal/frame"
)

// maxRoundTrip is the longest round trip of a ping that says how far two clocks differ: the error
// is at most half of it.
const maxRoundTrip = time.Second

// Age returns how long ago a frame was sent, by the sender's clock and by how far that clock was
// ahead of ours at the last quick ping. It is 0 if that is not known yet. A frame is old if this
// process was frozen, or if the network held it up.
func (r *Roster) Age(h *frame.Header) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	one := r.routers[h.From]
	if one == nil || !one.measured {
		return 0
	}
	return max(0, time.Since(time.UnixMilli(h.Time).Add(-one.ahead)))
}

// measure notes how far the clock of a router was ahead of ours in the middle of a round trip.
func (one *router) measure(sent, now time.Time, theirs int64) {
	if trip := now.Sub(sent); trip <= maxRoundTrip {
		one.ahead, one.measured = time.UnixMilli(theirs).Sub(sent.Add(trip/2)), true
	}
}

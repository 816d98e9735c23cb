package roster

import (
	"context"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/mcp-metarouter/metarouter/cluster/internal/count"
	"github.com/mcp-metarouter/metarouter/cluster/internal/frame"
)

// MaxClock is how far clocks of two nodes may differ. Frames with another time are refused, so that
// old frames can't be sent again.
const MaxClock = 60 * time.Second

// Bounds of a beat.
const (
	maxText    = 64
	maxServers = 1000
)

// A Sender is a node that is not trusted.
type Sender struct {
	Key, Node, Version string
	Clock              time.Duration // how far its clock is ahead of ours
	Frames             int64         // that were refused
	LastSeen           time.Time
}

// Receive takes a frame of kind beat, ping or pong. The signature is not checked yet. It does not
// block.
func (r *Roster) Receive(f *frame.Frame) {
	h := &f.Header
	if h.From == r.self {
		return
	}
	if !r.mayVerify(h) {
		return
	}
	select {
	case r.queue <- f:
	default:
		r.options.Counts.Dropped(count.Overflow)
	}
}

// Refused counts a frame of a node that is not trusted, which was dropped unread.
func (r *Roster) Refused(key string) {
	r.options.Counts.Dropped(count.Untrusted)
	r.mu.Lock()
	defer r.mu.Unlock()
	if s, ok := r.untrusted[key]; ok {
		s.Frames++
	}
}

// mayVerify reports whether the signature of a frame is worth its cost, and counts if not. Frames
// to all and frames to us alone count apart: NATS's permissions can keep others from forging frames
// to all, and no flood of frames to us makes a node seem lost.
func (r *Roster) mayVerify(h *frame.Header) bool {
	key := h.From.Key
	if r.trusted(key) {
		of := key
		if h.To == r.self {
			of += " to us"
		}
		if r.limits.trusted.Take(of, 1, 1) > 0 {
			r.options.Counts.Dropped(count.Overflow)
			return false
		}
		return true
	}
	r.Refused(key)
	return r.limits.untrusted.Take(key, 1, 1) == 0 && r.limits.all.Take("", 1, 1) == 0
}

// verify checks the signatures of frames and uses them.
func (r *Roster) verify(ctx context.Context) {
	for {
		select {
		case f := <-r.queue:
			r.use(f)
		case <-ctx.Done():
			return
		}
	}
}

func (r *Roster) use(f *frame.Frame) {
	if f.Verify() != nil {
		r.options.Counts.Dropped(count.Signature)
		return
	}
	h := &f.Header
	now := time.Now()
	clock := time.UnixMilli(h.Time).Sub(now)
	trusted := r.trusted(h.From.Key)
	switch {
	case h.Kind == frame.Beat:
		if !usable(h, r.options.Cluster) {
			r.options.Counts.Dropped(count.Garbage)
			return
		}
		if !trusted {
			r.noteUntrusted(h, clock, now)
			return
		}
		r.heard(h, clock, now)
	case !trusted:
	case clock.Abs() > MaxClock:
		r.options.Counts.Dropped(count.Clock)
	case h.Kind == frame.Ping && h.To == r.self && len(h.Nonce) <= maxText:
		// A pong that is not sent is one that got lost.
		_ = r.options.Wire.Send(h.From, frame.Header{Kind: frame.Pong, Nonce: h.Nonce}, nil)
	case h.Kind == frame.Pong && h.To == r.self:
		r.ponged(h, now)
	default:
		r.options.Counts.Dropped(count.Garbage)
	}
}

// usable reports whether a beat has all its members, within bounds.
func usable(h *frame.Header, cluster string) bool {
	b := h.Beat
	return b != nil && b.Cluster == cluster && IsName(b.Node) && isText(b.Version) && isText(b.Revision) &&
		len(b.Load) <= maxServers && h.From.Instance != ""
}

// IsName reports whether a text is a valid name of a node.
func IsName(name string) bool {
	if name == "" || len(name) > 32 {
		return false
	}
	for _, c := range []byte(name) {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
			return false
		}
	}
	return true
}

// isText reports whether a text is short and can be printed.
func isText(s string) bool {
	if len(s) > maxText || !utf8.ValidString(s) {
		return false
	}
	return !strings.ContainsFunc(s, func(c rune) bool { return !unicode.IsPrint(c) })
}

func (r *Roster) noteUntrusted(h *frame.Header, clock time.Duration, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s, ok := r.untrusted[h.From.Key]
	if !ok {
		if len(r.untrusted) >= maxUntrusted {
			return
		}
		s = &Sender{Key: h.From.Key, Frames: 1}
		r.untrusted[h.From.Key] = s
		r.changed.Notify()
	}
	s.Node, s.Version, s.Clock, s.LastSeen = h.Beat.Node, h.Beat.Version, clock, now
}

// heard notes a beat of a trusted node. A router that is new hears of this one at once.
func (r *Roster) heard(h *frame.Header, clock time.Duration, now time.Time) {
	if r.note(h, clock, now) {
		r.beatTo(h.From, false)
	}
}

// note notes a beat. It reports whether the router is new.
func (r *Roster) note(h *frame.Header, clock time.Duration, now time.Time) (isNew bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	one, known := r.routers[h.From]
	first := !known || one.beat.Count == 0
	if !known {
		if !r.makeRoom(h.From.Key) {
			r.options.Counts.Dropped(count.Overflow)
			return false
		}
		one = &router{address: h.From, lost: make(chan struct{})}
		r.routers[h.From] = one
	}
	if h.Beat.Count <= one.beat.Count || one.beat.Gone {
		r.options.Counts.Dropped(count.Repeated)
		return false
	}
	one.clock = clock
	if clock.Abs() > MaxClock {
		r.offClock(one, h.Beat, now, !known)
		return false
	}
	before, dead := one.beat, one.dead
	one.beat, one.seen = *h.Beat, now
	switch {
	case h.Beat.Gone && !dead:
		r.lose(one)
	case dead && !h.Beat.Gone: // it is back
		one.dead, one.lost = false, make(chan struct{})
	}
	if before.Revision == "" && h.Beat.Revision != "" || dead {
		one.since = now
	}
	if !known || dead != one.dead || differ(&before, h.Beat) {
		r.nameAll()
		r.changed.Notify()
	}
	return first && !h.Beat.Gone
}

// makeRoom reports whether there is room for another router of a node: one that has ended makes room
// for it. r.mu must be held.
func (r *Roster) makeRoom(key string) bool {
	n := 0
	var oldest *router
	for _, one := range r.routers {
		if one.address.Key != key {
			continue
		}
		if n++; one.dead && (oldest == nil || one.seen.Before(oldest.seen)) {
			oldest = one
		}
	}
	switch {
	case n < perNode:
		return len(r.routers) < maxRouters
	case oldest == nil:
		return false
	}
	delete(r.routers, oldest.address)
	return true
}

// offClock notes a beat with a time that may be the time of an old one: it only shows that the
// clocks differ. r.mu must be held.
func (r *Roster) offClock(one *router, b *frame.Beating, now time.Time, first bool) {
	r.options.Counts.Dropped(count.Clock)
	if first {
		one.beat = frame.Beating{Node: b.Node, Version: b.Version}
		r.lose(one)
		r.nameAll()
		r.changed.Notify()
	}
	if one.dead {
		one.seen = now
	}
}

// differ reports whether two beats of a router differ in more than numbers.
func differ(a, b *frame.Beating) bool {
	return a.Node != b.Node || a.Version != b.Version || a.Revision != b.Revision || a.Leaving != b.Leaving ||
		!sameStates(a.Load, b.Load)
}

// sameStates reports whether two loads have the same servers in the same states.
func sameStates(a, b map[string]frame.ServerState) bool {
	if len(a) != len(b) {
		return false
	}
	for name, s := range a {
		if other, ok := b[name]; !ok || other.State != s.State {
			return false
		}
	}
	return true
}

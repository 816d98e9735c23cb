package roster

import (
	"cmp"
	"crypto/rand"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/mcp-metarouter/metarouter/cluster/internal/frame"
)

// A Peer is a router of a trusted node other than this router, at one moment.
type Peer struct {
	Address  frame.Address
	Node     string // the name of the node; unique among the trusted ones
	Claimed  string // the name that it gives itself
	Version  string
	Alive    bool
	Epoch    uint64
	Revision string // of the announcement in force; "" if it shares nothing
	Leaving  bool
	Since    time.Time // when it began to share
	Load     map[string]frame.ServerState
	Latency  time.Duration // 0 if it is not known
	Silent   bool          // it answers no pings: it may not trust this node
	Clock    time.Duration // how far its clock is ahead of ours
	LastSeen time.Time
}

// Peers returns the routers that are alive or were lately, by name, those that share first.
func (r *Roster) Peers() []Peer {
	r.mu.Lock()
	peers := make([]Peer, 0, len(r.routers))
	for _, one := range r.routers {
		if one.beat.Node == "" { // it called, and was not heard yet
			continue
		}
		peers = append(peers, Peer{
			Address: one.address, Node: r.names[one.address.Key], Claimed: one.beat.Node, Version: one.beat.Version,
			Alive: !one.dead, Epoch: one.beat.Epoch, Revision: one.beat.Revision, Leaving: one.beat.Leaving, Since: one.since,
			Load: one.beat.Load, Latency: one.latency, Silent: one.unheard >= silentPings, Clock: one.clock, LastSeen: one.seen,
		})
	}
	r.mu.Unlock()
	slices.SortFunc(peers, func(a, b Peer) int {
		return cmp.Or(strings.Compare(a.Node, b.Node), -compareBool(a.Alive, b.Alive), -compareBool(a.Revision != "", b.Revision != ""), compareBool(a.Leaving, b.Leaving),
			b.Since.Compare(a.Since), strings.Compare(a.Address.Instance, b.Address.Instance))
	})
	return peers
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

// Find returns the router that shares the servers of the node with the name, else any that is alive.
func (r *Roster) Find(name string) (Peer, bool) {
	for _, p := range r.Peers() {
		if p.Node == name && p.Alive {
			return p, true
		}
	}
	return Peer{}, false
}

// Load returns how the servers are that a router shares, as it said last; nil if it is not alive.
func (r *Roster) Load(a frame.Address) map[string]frame.ServerState {
	r.mu.Lock()
	defer r.mu.Unlock()
	if one := r.routers[a]; one != nil && !one.dead {
		return one.beat.Load
	}
	return nil
}

// ServerLoad returns how a server is that a router shares, and in which of its beats it said so; the
// zero values if it is not alive.
func (r *Roster) ServerLoad(a frame.Address, server string) (load frame.ServerState, beat uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if one := r.routers[a]; one != nil && !one.dead {
		return one.beat.Load[server], one.beat.Count
	}
	return load, 0
}

// Name returns the name of a trusted node, or of this one. A node that was not heard yet is named by
// its key.
func (r *Roster) Name(key string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if name := r.names[key]; name != "" {
		return name
	}
	return "node-" + cut(tail(key), 4)
}

// Untrusted returns the nodes that are not trusted, by key.
func (r *Roster) Untrusted() []Sender {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make([]Sender, 0, len(r.untrusted))
	for _, s := range r.untrusted {
		all = append(all, *s)
	}
	slices.SortFunc(all, func(a, b Sender) int { return strings.Compare(a.Key, b.Key) })
	return all
}

// nameAll gives the trusted nodes and this one their names: of two with one name, that with the lower
// key keeps it. Lost nodes keep theirs for a while, so that names do not change to and fro.
// r.mu must be held.
func (r *Roster) nameAll() {
	claimed := map[string]string{r.self.Key: r.options.Node}
	latest := map[string]*router{}
	for _, one := range r.routers {
		key := one.address.Key
		if one.beat.Node == "" || key == r.self.Key {
			continue
		}
		// One that lives knows best: beats of long ago may be sent again.
		if last := latest[key]; last == nil || last.dead && !one.dead || last.dead == one.dead && !one.seen.Before(last.seen) {
			claimed[key], latest[key] = one.beat.Node, one
		}
	}
	r.names = nameAll(claimed)
}

// nameAll returns the names of nodes by key from those that they claim.
func nameAll(claimed map[string]string) map[string]string {
	names, taken := make(map[string]string, len(claimed)), map[string]bool{}
	keys := slices.Sorted(maps.Keys(claimed))
	var others []string
	for _, key := range keys {
		if name := claimed[key]; !taken[name] {
			names[key], taken[name] = name, true
		} else {
			others = append(others, key)
		}
	}
	for _, key := range others {
		tail := tail(key)
		for n := 4; ; n += 4 {
			name := cut(claimed[key], 27) + "-" + cut(tail, n)
			if !taken[name] || n > len(tail) {
				names[key], taken[name] = name, true
				break
			}
		}
	}
	return names
}

// tail returns the part of a key that differs from node to node, in lower case.
func tail(key string) string { return strings.ToLower(key[min(len(key), 2):]) }

func cut(s string, n int) string { return s[:min(n, len(s))] }

// A ping is one that was not answered yet.
type ping struct {
	to   frame.Address
	sent time.Time
}

// silentPings is how many pings in a row a router leaves unanswered that does not trust us.
const silentPings = 2

// ping measures the latency of the routers that are due.
func (r *Roster) ping() {
	r.PingAll(pingsAtOnce, pingEvery)
}

// PingAll sends pings to at most n routers that got no ping for as long as every, the longest
// first.
func (r *Roster) PingAll(n int, every time.Duration) {
	r.mu.Lock()
	now := time.Now()
	var due []*router
	for _, one := range r.routers {
		if !one.dead && one.beat.Node != "" && now.Sub(one.pinged) >= every {
			due = append(due, one)
		}
	}
	slices.SortFunc(due, func(a, b *router) int { return a.pinged.Compare(b.pinged) })
	send := map[string]frame.Address{}
	for _, one := range due[:min(n, len(due))] {
		nonce := rand.Text()
		one.pinged, send[nonce] = now, one.address
		r.pings[nonce] = ping{one.address, now}
	}
	r.mu.Unlock()
	for nonce, to := range send {
		// A ping that is not sent is one without an answer.
		_ = r.options.Wire.Send(to, frame.Header{Kind: frame.Ping, Nonce: nonce}, nil)
	}
}

func (r *Roster) ponged(h *frame.Header, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p, ok := r.pings[h.Nonce]
	one := r.routers[h.From]
	if !ok || p.to != h.From || one == nil {
		return
	}
	delete(r.pings, h.Nonce)
	if one.unheard >= silentPings {
		r.changed.Notify()
	}
	one.latency, one.unheard = now.Sub(p.sent), 0
	one.measure(p.sent, now, h.Time)
}

// forgetPings gives up waiting for answers. r.mu must be held.
func (r *Roster) forgetPings(now time.Time) {
	for nonce, p := range r.pings {
		if now.Sub(p.sent) < Silence {
			continue
		}
		delete(r.pings, nonce)
		if one := r.routers[p.to]; one != nil && !one.dead {
			one.unheard++
			if one.unheard == silentPings {
				r.changed.Notify()
			}
		}
	}
}

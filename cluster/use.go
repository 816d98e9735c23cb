package cluster

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/cluster/internal/roster"
)

const (
	learnAtOnce = 4 // servers
	gather      = 50 * time.Millisecond

	// The pause before a server is learned again after a failure doubles from one to the other.
	firstPause, lastPause = time.Second, 15 * time.Second
)

// use keeps the servers of other nodes that the router uses equal to those that are shared, until ctx
// ends. Then it forgets all.
func (m *member) use(ctx context.Context) {
	l := learners{member: m, ctx: ctx, busy: map[string]bool{}, done: make(chan string, learnAtOnce)}
	defer l.running.Wait()
	for {
		rules, peers, announced := m.edited.Next(), m.roster.Changed(), m.directory.Changed()
		m.reconcile()
		due := l.schedule()
		for same := true; same; {
			select {
			case name := <-l.done:
				delete(l.busy, name)
				due = l.next()
				continue
			case <-rules:
			case <-peers:
			case <-announced:
			case <-due:
			case <-ctx.Done():
				m.forgetAll()
				return
			}
			same = false
		}
		// Changes of many nodes often come together.
		select {
		case <-time.After(gather):
		case <-ctx.Done():
		}
	}
}

// reconcile compares the servers with those that are shared. Those that are no longer shared are
// forgotten.
func (m *member) reconcile() {
	desired, sums := m.desired()
	var gone []string
	m.mu.Lock()
	for name, r := range m.remotes {
		if want, ok := desired[name]; !ok {
			gone = append(gone, name)
			m.drop(name, r)
		} else if want != r.spec {
			m.replace(r, want)
		}
	}
	for name, want := range desired {
		if m.remotes[name] == nil {
			m.remotes[name] = &remote{spec: want, gone: make(chan struct{}), since: time.Now()}
		}
	}
	m.mu.Unlock()
	m.directory.Retain(sums)
	m.endStreams()
	slices.Sort(gone)
	for _, name := range gone {
		m.log.Info("a server of another node is gone", zap.String("server", name))
		m.node.options.Handler.Forget(name)
	}
	m.node.changed.Notify()
}

// drop takes a server away. m.mu must be held.
func (m *member) drop(name string, r *remote) {
	close(r.gone)
	if r.cancel != nil {
		r.cancel()
	}
	delete(m.remotes, name)
}

// replace notes that a server is called in another way, or offers something else. m.mu must be held.
func (m *member) replace(r *remote, want spec) {
	if !want.sameOffer(r.spec) {
		// A node may change its mind as often as it likes: each time costs us more than it.
		r.current, r.tries, r.next = false, 0, r.last.Add(firstPause)
	}
	r.spec = want
}

// desired returns the servers of other nodes that the router uses, by name, and the hashes of the
// definitions to keep: also of nodes that are gone, so that they can be used at once when they are
// back.
func (m *member) desired() (all map[string]spec, sums map[string]bool) {
	rules := m.rules.Load()
	all, sums = map[string]spec{}, map[string]bool{}
	for p := range m.sharing(false) {
		for _, s := range p.Servers {
			name := s.Name + "@" + p.Name
			if !rules.uses(name) {
				continue
			}
			sums[s.Definitions.Sum] = true
			if p.Alive {
				all[name] = spec{p.Address, p.Name, s}
			}
		}
	}
	return all, sums
}

// sharing yields the router of each other node that shares; if alive, only of living nodes.
func (m *member) sharing(alive bool) iter.Seq[roster.Peer] {
	return func(yield func(roster.Peer) bool) {
		seen := map[string]bool{m.key: true} // our own servers are this user's own
		for _, p := range m.roster.Peers() { // the router that shares is the first of its node
			if seen[p.Address.Key] || alive && !p.Alive {
				continue
			}
			seen[p.Address.Key] = true
			if !yield(p) {
				return
			}
		}
	}
}

// learners learn servers, one at a time each, some at once.
type learners struct {
	member  *member
	ctx     context.Context
	running sync.WaitGroup
	waiting []string        // names of servers that may have to be learned
	busy    map[string]bool // those that are being learned
	done    chan string     // has room for all of them
}

// schedule begins to learn the servers with unknown offers, and returns when it has to be called
// again; nil if that is only after a change.
func (l *learners) schedule() <-chan time.Time {
	l.waiting = l.waiting[:0]
	l.member.mu.Lock()
	for name, r := range l.member.remotes {
		if !r.current {
			l.waiting = append(l.waiting, name)
		}
	}
	l.member.mu.Unlock()
	slices.Sort(l.waiting)
	return l.next()
}

// next begins to learn as many of those that wait as it may.
func (l *learners) next() <-chan time.Time {
	l.member.mu.Lock()
	defer l.member.mu.Unlock()
	var later []string
	var first time.Time
	for i, name := range l.waiting {
		if len(l.busy) == learnAtOnce {
			later = append(later, l.waiting[i:]...)
			break
		}
		r := l.member.remotes[name]
		switch {
		case r == nil || r.current:
		case l.busy[name]:
			later = append(later, name)
		case r.next.After(time.Now()):
			later = append(later, name)
			if first.IsZero() || r.next.Before(first) {
				first = r.next
			}
		default:
			l.start(name, r)
		}
	}
	l.waiting = later
	if first.IsZero() {
		return nil
	}
	return time.After(time.Until(first))
}

// start begins to learn a server. The mutex of the member must be held.
func (l *learners) start(name string, r *remote) {
	ctx, cancel := context.WithCancel(l.ctx)
	l.busy[name], r.cancel = true, cancel
	want, gone := r.spec, r.gone
	l.running.Go(func() {
		l.member.learn(ctx, name, want, gone)
		cancel()
		l.done <- name
	})
}

// learn has the handler learn a server.
func (m *member) learn(ctx context.Context, name string, want spec, gone <-chan struct{}) {
	definitions, err := m.directory.Fetch(ctx, want.router.Key, want.Definitions)
	if err == nil && len(definitions.Tools) > want.Tools { // the sum of the announced tools of a node is bounded
		err = fmt.Errorf("it has %d tools, and %d were announced", len(definitions.Tools), want.Tools)
	}
	if err == nil {
		l := listing{definitions.Info.Session(), definitions, gone}
		if err = m.node.options.Handler.Learn(ctx, want.entry(name), l); err == nil {
			m.learnt(name, want, l)
			return
		}
		err = fmt.Errorf("learn what it offers: %w", err)
	}
	if ctx.Err() != nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.remotes[name]
	if r == nil || !r.sameOffer(want) {
		return
	}
	pause := min(firstPause<<min(r.tries, 10), lastPause)
	r.tries++
	r.next = time.Now().Add(pause)
	if r.problem != err.Error() {
		r.problem = err.Error()
		m.log.Warn("can't use a server of another node; trying again", zap.String("server", name), zap.Error(err))
		m.node.changed.Notify()
	}
}

// learnt notes that a server can be called.
func (m *member) learnt(name string, want spec, l listing) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.remotes[name]
	if r == nil || !r.sameOffer(want) {
		return
	}
	if !r.learned {
		m.log.Info("a server of another node can be used", zap.String("server", name))
		r.since = time.Now()
	}
	r.info, r.learned, r.current, r.problem, r.tries, r.last = l.info, true, true, "", 0, time.Now()
	m.node.changed.Notify()
}

// forgetAll forgets all servers.
func (m *member) forgetAll() {
	m.mu.Lock()
	names := slices.Sorted(maps.Keys(m.remotes))
	for _, name := range names {
		m.drop(name, m.remotes[name])
	}
	m.mu.Unlock()
	for _, name := range names {
		m.node.options.Handler.Forget(name)
	}
	if len(names) > 0 {
		m.node.changed.Notify()
	}
}

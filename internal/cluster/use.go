package cluster

import (
	"context"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/internal/signal"
)

const (
	learnAtOnce = 4 // servers
	gather      = 100 * time.Millisecond

	learnPause = time.Second     // for a server that changes again and again
	learnAgain = 3 * time.Second // after a failure
)

// use keeps the servers of other nodes that the router uses equal to those that are shared, until ctx
// ends. Then it forgets all.
func (m *member) use(ctx context.Context) {
	var learning sync.WaitGroup
	turns := make(chan struct{}, learnAtOnce)
	defer learning.Wait()
	for {
		rules, peers := m.edited.Next(), m.roster.Changed()
		for _, r := range m.reconcile(m.desired()) {
			learning.Go(func() { m.keepLearned(r, turns) })
		}
		m.endStreams()
		select {
		case <-rules:
		case <-peers:
		case <-ctx.Done():
			m.reconcile(nil)
			return
		}
		signal.Within(ctx.Done(), gather) // changes of many nodes often come together
	}
}

// reconcile compares the servers with those that are desired, and returns those that are new. Those
// that are no longer desired are forgotten.
func (m *member) reconcile(desired map[string]spec) (added []*remote) {
	var gone []string
	m.mu.Lock()
	for name, r := range m.remotes {
		switch want, ok := desired[name]; {
		case !ok:
			gone = append(gone, name)
			r.end()
			delete(m.remotes, name)
		case want != r.spec:
			r.spec = want
			r.edited.Notify()
		}
	}
	for name, want := range desired {
		if m.remotes[name] == nil {
			r := &remote{known: known{spec: want, since: time.Now()}, name: name}
			r.ctx, r.end = context.WithCancel(context.Background())
			m.remotes[name] = r
			added = append(added, r)
		}
	}
	m.mu.Unlock()
	slices.Sort(gone)
	for _, name := range gone {
		m.log.Info("a server of another node is gone", zap.String("server", name))
		m.node.options.Handler.Forget(name)
	}
	m.node.changed.Notify()
	return added
}

// desired returns the servers of other nodes that the router uses, by name.
func (m *member) desired() map[string]spec {
	rules := m.rules.Load()
	all, seen := map[string]spec{}, map[string]bool{m.key: true} // our own servers are this user's own
	for _, p := range m.roster.Peers() {                         // the router that shares is the first of its node
		if !p.Alive || seen[p.Address.Key] {
			continue
		}
		seen[p.Address.Key] = true
		for _, s := range p.Servers {
			if name := s.Name + "@" + p.Name; matches(rules.use, name) {
				all[name] = spec{p.Address, p.Name, s}
			}
		}
	}
	return all
}

// keepLearned has the handler learn a server, again whenever the server offers something else, until
// the server is gone.
func (m *member) keepLearned(r *remote, turns chan struct{}) {
	for {
		edited := r.edited.Next()
		var again <-chan time.Time
		m.mu.Lock()
		want := r.spec
		current := r.offer == want.Server
		m.mu.Unlock()
		if !current {
			select {
			case turns <- struct{}{}:
			case <-r.ctx.Done():
				return
			}
			err := m.learn(r, want)
			<-turns
			if again = time.After(learnAgain); err == nil {
				edited, again = nil, time.After(learnPause)
			}
		}
		select {
		case <-edited:
		case <-again:
		case <-r.ctx.Done():
			return
		}
	}
}

// learn has the handler learn a server, and notes the outcome.
func (m *member) learn(r *remote, want spec) error {
	definitions, err := m.directory.Fetch(r.ctx, want.router.Key, want.Server)
	if err == nil {
		err = m.node.options.Handler.Learn(r.ctx, want.entry(r.name), listing{definitions, r.ctx.Done()})
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if r.ctx.Err() != nil {
		return r.ctx.Err()
	}
	if err != nil {
		if r.problem != err.Error() {
			r.problem = err.Error()
			m.log.Warn("can't use a server of another node; trying again", zap.String("server", r.name), zap.Error(err))
			m.node.changed.Notify()
		}
		return err
	}
	if !r.learned() {
		m.log.Info("a server of another node can be used", zap.String("server", r.name))
		r.since = time.Now()
	}
	r.offer, r.info, r.problem = want.Server, definitions.Info, ""
	m.node.changed.Notify()
	return nil
}

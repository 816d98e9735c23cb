package server

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/server/internal/budget"
	"github.com/mcp-metarouter/metarouter/server/internal/catalog"
)

const (
	// subscribersAtOnce bounds how many subscriptions of one request are made at a
	// time: each may wait for its server.
	subscribersAtOnce = 16

	// watchAgainAfter is the pause before a subscription is asked for again that its server has forgotten. The pause
	// doubles while the server refuses, up to watchAgainAtMost: one that has just started may not know all resources yet.
	watchAgainAfter  = time.Second
	watchAgainAtMost = time.Minute
)

type subscriber interface {
	// Subscribe has a server say when a resource changes. done is closed when the
	// server has forgotten the subscription; cancel ends it.
	Subscribe(ctx context.Context, server, uri string, from session.Client) (done <-chan struct{}, cancel func(), err error)
}

// A subscription says which client wants to be notified of changes of a resource: a legacy client, or the request of a modern one.
type subscription struct {
	from session.Client
	uri  string // by which the client knows the resource
}

// A watch is a subscription at the server that has the resource.
type watch struct {
	subscription
	at      catalog.Address
	notify  func(session.Message)
	life    context.Context // ends when the client has given it up
	end     context.CancelFunc
	running sync.WaitGroup
}

// watchAll subscribes to resources, and returns those that exist.
func (s *subscriptions) watchAll(ctx context.Context, from session.Client, uris []string, notify func(session.Message)) (known []string) {
	uris = slices.Compact(slices.Sorted(slices.Values(uris)))
	watched := make([]bool, len(uris))
	var g errgroup.Group
	g.SetLimit(subscribersAtOnce)
	for i, uri := range uris {
		g.Go(func() error {
			watched[i] = s.watch(ctx, subscription{from, uri}, notify) == nil
			return nil
		})
	}
	g.Wait()
	for i, uri := range uris {
		if watched[i] {
			known = append(known, uri)
		}
	}
	return known
}

// watch subscribes to a resource, now and whenever its server has a new session, until the client gives it up. A client that has
// done so already is subscribed once.
func (s *subscriptions) watch(ctx context.Context, by subscription, notify func(session.Message)) error {
	found, err := s.locate(ctx, by.uri)
	if err != nil {
		return err
	}
	w := &watch{subscription: by, at: found[0], notify: notify}
	w.life, w.end = context.WithCancel(context.WithoutCancel(ctx))
	if added, err := s.add(w); !added {
		return err
	}
	done, cancel, err := s.router.Subscribe(ctx, w.at.Server, w.at.URI, w.from)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.drop(w)
		return err
	}
	w.running.Go(func() {
		for cancel != nil {
			select {
			case <-w.life.Done():
				cancel()
				return
			case <-done:
				done, cancel = s.watchAgain(w)
			}
		}
	})
	return nil
}

// add adds a watch, unless the client has one already or too many.
func (s *subscriptions) add(w *watch) (added bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.watches[w.subscription] != nil {
		return false, nil
	}
	switch bound := s.budget.Bound(budget.Watches); s.budget.Take(budget.Watches, w.from, 0) {
	case budget.ErrEach:
		return false, session.Internal(fmt.Sprintf("a client can have %d subscriptions", bound.Each))
	case budget.ErrAll:
		return false, session.Internal(fmt.Sprintf("busy: clients have %d subscriptions together", bound.All))
	}
	s.watches[w.subscription] = w
	return true, nil
}

// drop ends a watch, unless it has ended. s.mu must be held.
func (s *subscriptions) drop(w *watch) {
	if w.end(); s.watches[w.subscription] == w {
		delete(s.watches, w.subscription)
		s.budget.Release(budget.Watches, w.from, 0)
	}
}

// endWatches ends some watches, and waits for their goroutines.
func (s *subscriptions) endWatches(some func(*watch) bool) {
	var ended []*watch
	s.mu.Lock()
	for _, w := range s.watches {
		if some(w) {
			s.drop(w)
			ended = append(ended, w)
		}
	}
	s.mu.Unlock()
	for _, w := range ended {
		w.running.Wait()
	}
}

// watchAgain subscribes again, until the server agrees. It returns nil if the client gives up.
func (s *subscriptions) watchAgain(w *watch) (done <-chan struct{}, cancel func()) {
	for pause := watchAgainAfter; sleep(w.life, pause); pause = min(2*pause, watchAgainAtMost) {
		done, cancel, err := s.router.Subscribe(w.life, w.at.Server, w.at.URI, w.from)
		if err == nil {
			return done, cancel
		}
		s.log.Debug("can't subscribe again", zap.String("server", w.at.Server), zap.Error(err))
	}
	return nil, nil
}

// updated notifies the clients that watch a resource of a server. owner is the only
// client that uses the server's session, nil if several may.
func (s *subscriptions) updated(server string, owner session.Client, m session.Message) {
	uri, _ := wire.String(wire.Member(m.Params, "uri"))
	at := catalog.Address{Server: server, URI: uri}
	var watching []*watch
	s.mu.Lock()
	for _, w := range s.watches {
		if w.at == at && session.Owns(owner, w.from) {
			watching = append(watching, w)
		}
	}
	s.mu.Unlock()
	for _, w := range watching {
		if w.life.Err() == nil {
			w.notify(session.Message{Method: m.Method, Params: wire.SetMember(m.Params, "uri", wire.AppendString(nil, w.uri))})
		}
	}
}

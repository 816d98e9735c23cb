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
	"github.com/mcp-metarouter/metarouter/internal/signal"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/server/internal/budget"
	"github.com/mcp-metarouter/metarouter/server/internal/catalog"
	"github.com/mcp-metarouter/metarouter/server/internal/conversation"
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

// A watch is a subscription to a resource on behalf of a client.
type watch struct {
	at     catalog.Address
	from   session.Client
	notify func(session.Message)
	uri    string          // by which the client knows the resource
	ended  <-chan struct{} // closed when the client has given it up
}

// watchAll subscribes to resources until ctx ends, and returns those that exist.
func (s *subscriptions) watchAll(ctx context.Context, running *sync.WaitGroup, from session.Client, uris []string, notify func(session.Message)) (known []string) {
	uris = slices.Compact(slices.Sorted(slices.Values(uris)))
	watched := make([]bool, len(uris))
	var g errgroup.Group
	g.SetLimit(subscribersAtOnce)
	for i, uri := range uris {
		g.Go(func() error {
			watched[i] = s.watch(ctx, ctx, running, from, uri, notify) == nil
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

// watch subscribes to a resource, now and whenever its server has a new session, until life ends. running counts the goroutine
// that does.
func (s *subscriptions) watch(ctx, life context.Context, running *sync.WaitGroup, from session.Client, uri string, notify func(session.Message)) error {
	found, err := s.locate(ctx, uri)
	if err != nil {
		return err
	}
	w := &watch{at: found[0], from: from, notify: notify, uri: uri, ended: life.Done()}
	switch bound := s.budget.Bound(budget.Watches); s.budget.Take(budget.Watches, from, 0) {
	case budget.ErrEach:
		return conversation.Internal(fmt.Sprintf("a client can have %d subscriptions", bound.Each))
	case budget.ErrAll:
		return conversation.Internal(fmt.Sprintf("busy: clients have %d subscriptions together", bound.All))
	}
	s.mu.Lock()
	s.watches[w] = true
	s.mu.Unlock()
	forget := func() {
		s.mu.Lock()
		delete(s.watches, w)
		s.mu.Unlock()
		s.budget.Release(budget.Watches, from, 0)
	}
	done, cancel, err := s.router.Subscribe(ctx, w.at.Server, w.at.URI, from)
	if err != nil {
		forget()
		return err
	}
	running.Go(func() {
		defer forget()
		for cancel != nil {
			select {
			case <-life.Done():
				cancel()
				return
			case <-done:
				done, cancel = s.watchAgain(life, w)
			}
		}
	})
	return nil
}

// watchAgain subscribes again, until the server agrees. It returns nil if life ends.
func (s *subscriptions) watchAgain(life context.Context, w *watch) (done <-chan struct{}, cancel func()) {
	for pause := watchAgainAfter; sleep(life, pause); pause = min(2*pause, watchAgainAtMost) {
		done, cancel, err := s.router.Subscribe(life, w.at.Server, w.at.URI, w.from)
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
	for w := range s.watches {
		if w.at == at && session.Owns(owner, w.from) {
			watching = append(watching, w)
		}
	}
	s.mu.Unlock()
	for _, w := range watching {
		if !signal.IsClosed(w.ended) { // else its goroutine has not seen it yet
			w.notify(session.Message{Method: m.Method, Params: wire.SetMember(m.Params, "uri", wire.AppendString(nil, w.uri))})
		}
	}
}

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
	from   session.Client // a legacy client, or the request of a modern one
	uri    string         // by which the client knows the resource
	notify func(session.Message)
	life   context.Context // ends when the client has given it up
	end    context.CancelFunc
	at     catalog.Address // guarded by mu of subscriptions; zero until the resource is found
}

// clientWatches are the watches of one client.
type clientWatches struct {
	byURI   map[string]*watch // without those that the client has given up
	running sync.WaitGroup    // the goroutines of all, also of those that it has given up
}

// watchAll subscribes to resources until the client has left, and returns those that exist.
func (s *subscriptions) watchAll(ctx context.Context, from session.Client, uris []string, notify func(session.Message)) (known []string) {
	uris = slices.Compact(slices.Sorted(slices.Values(uris)))
	known = slices.Clone(uris)
	var g errgroup.Group
	g.SetLimit(subscribersAtOnce)
	for i, uri := range uris {
		g.Go(func() error {
			if s.watch(ctx, from, uri, notify) != nil {
				known[i] = ""
			}
			return nil
		})
	}
	g.Wait()
	return slices.DeleteFunc(known, func(uri string) bool { return uri == "" })
}

// watch subscribes to a resource, now and whenever its server has a new session, until the client gives it up. A client that has
// done so already is subscribed once.
func (s *subscriptions) watch(ctx context.Context, from session.Client, uri string, notify func(session.Message)) error {
	w := &watch{from: from, uri: uri, notify: notify}
	w.life, w.end = context.WithCancel(context.WithoutCancel(ctx))
	own, added, err := s.add(w)
	if !added {
		w.end()
		return err
	}
	done, cancel, err := s.begin(ctx, w)
	if err != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.drop(w)
		return err
	}
	own.running.Go(func() {
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

// begin finds the resource of a watch, and subscribes to it.
func (s *subscriptions) begin(ctx context.Context, w *watch) (done <-chan struct{}, cancel func(), err error) {
	found, err := s.locate(ctx, w.uri)
	if err != nil {
		return nil, nil, err
	}
	s.mu.Lock()
	w.at = found[0]
	s.mu.Unlock()
	return s.router.Subscribe(ctx, found[0].Server, found[0].URI, w.from)
}

// add adds a watch to those of its client, unless the client has one of the resource already or too many.
func (s *subscriptions) add(w *watch) (own *clientWatches, added bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	own = s.watches[w.from]
	if own == nil {
		own = &clientWatches{byURI: make(map[string]*watch)}
		s.watches[w.from] = own
	}
	if own.byURI[w.uri] != nil {
		return own, false, nil
	}
	switch bound := s.budget.Bound(budget.Watches); s.budget.Take(budget.Watches, w.from, len(w.uri)) {
	case budget.ErrEach:
		return own, false, session.Internal(fmt.Sprintf("a client can have %d subscriptions, with %d bytes of URIs", bound.Each, bound.EachBytes))
	case budget.ErrAll:
		return own, false, session.Internal(fmt.Sprintf("busy: clients can have %d subscriptions together, with %d bytes of URIs", bound.All, bound.AllBytes))
	}
	own.byURI[w.uri] = w
	return own, true, nil
}

// drop ends a watch, unless it has ended. It does not wait for its server. s.mu must be held.
func (s *subscriptions) drop(w *watch) {
	w.end()
	if own := s.watches[w.from]; own != nil && own.byURI[w.uri] == w {
		delete(own.byURI, w.uri)
		s.budget.Release(budget.Watches, w.from, len(w.uri))
	}
}

// left ends the watches of a client without requests under way, and waits for their goroutines.
func (s *subscriptions) left(from session.Client) {
	s.mu.Lock()
	own := s.watches[from]
	if own != nil {
		for _, w := range own.byURI {
			s.drop(w)
		}
		delete(s.watches, from)
	}
	s.mu.Unlock()
	if own != nil {
		own.running.Wait()
	}
}

// watchAgain subscribes again, until the server agrees. It returns nil if the client gives up.
func (s *subscriptions) watchAgain(w *watch) (done <-chan struct{}, cancel func()) {
	for pause := watchAgainAfter; !signal.Within(w.life.Done(), pause); pause = min(2*pause, watchAgainAtMost) {
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
	at := catalog.Address{Server: server, URI: wire.Text(m.Params, "uri")}
	var watching []*watch
	s.mu.Lock()
	for _, own := range s.watches {
		for _, w := range own.byURI {
			if w.at == at && session.Owns(owner, w.from) {
				watching = append(watching, w)
			}
		}
	}
	s.mu.Unlock()
	for _, w := range watching {
		if w.life.Err() == nil {
			w.notify(session.Message{Method: m.Method, Params: wire.SetMember(m.Params, "uri", wire.AppendString(nil, w.uri))})
		}
	}
}

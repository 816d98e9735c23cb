package server

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/signal"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/server/internal/catalog"
	"github.com/mcp-metarouter/metarouter/server/internal/conversation"
)

const (
	// subscribersAtOnce bounds how many subscriptions of one request are made at a
	// time: each may wait for its server.
	subscribersAtOnce = 16

	// maxRefusals is how often a subscription is asked for again that is refused: a server that
	// has just started may not know all resources yet.
	maxRefusals = 3

	// watchAgainAfter is the pause before a subscription is asked for again that its
	// server has forgotten.
	watchAgainAfter = time.Second
)

// A watch is a subscription to a resource on behalf of a client.
type watch struct {
	at     catalog.Address
	from   session.Client
	notify func(session.Message)
	uri    string          // by which the client knows the resource
	ended  <-chan struct{} // closed when the client has given it up
}

// watches are the subscriptions to resources of servers.
type watches struct {
	router subscriber
	locate func(ctx context.Context, uri string) ([]catalog.Address, error)
	exists func(server string) bool
	log    *zap.Logger
	quota  *conversation.Quota

	mu  sync.Mutex // guards all
	all map[*watch]bool
}

// addAll subscribes to resources until ctx ends, and returns those that exist.
func (s *watches) addAll(ctx context.Context, running *sync.WaitGroup, from session.Client, uris []string, notify func(session.Message)) (known []string) {
	uris = slices.Clone(uris)
	slices.Sort(uris)
	uris = slices.Compact(uris)
	watched := make([]bool, len(uris))
	var g errgroup.Group
	g.SetLimit(subscribersAtOnce)
	for i, uri := range uris {
		g.Go(func() error {
			watched[i] = s.add(ctx, ctx, running, from, uri, notify, func() {}) == nil
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

// add subscribes to a resource, now and whenever its server has a new session,
// until life ends, or until the resource does not exist for the client any more: then ended is
// called. running counts the goroutine that does.
func (s *watches) add(ctx, life context.Context, running *sync.WaitGroup, from session.Client, uri string, notify func(session.Message), ended func()) error {
	found, err := s.locate(ctx, uri)
	if err != nil {
		return err
	}
	at := found[0]
	w := &watch{at: at, from: from, notify: notify, uri: uri, ended: life.Done()}
	if !s.quota.Take("", 0) {
		return conversation.Internal(fmt.Sprintf("busy: clients have %d subscriptions together", maxWatches))
	}
	s.mu.Lock()
	s.all[w] = true
	s.mu.Unlock()
	forget := func() {
		s.mu.Lock()
		delete(s.all, w)
		s.mu.Unlock()
		s.quota.Release("", 0)
	}
	done, cancel, err := s.router.Subscribe(ctx, at.Server, at.URI, from)
	if err != nil {
		forget()
		return err
	}
	running.Go(func() {
		defer forget()
		refusals := 0
		for {
			select {
			case <-life.Done():
				if cancel != nil {
					cancel()
				}
				return
			case <-done:
			}
			if !sleep(life, watchAgainAfter) {
				return
			}
			done, cancel, err = s.router.Subscribe(life, at.Server, at.URI, from)
			if !s.refused(at.Server, err) {
				refusals = 0
			} else if refusals++; refusals == maxRefusals {
				ended()
				return
			}
			if err != nil {
				s.log.Debug("can't subscribe again", zap.String("server", at.Server), zap.Error(err))
				expired := make(chan struct{})
				close(expired)
				done, cancel = expired, nil
			}
		}
	})
	return nil
}

// refused reports whether the error of a subscription says that the resource does not exist for
// the client, and not that its server can't be reached.
func (s *watches) refused(server string, err error) bool {
	if err == nil {
		return false
	}
	e, ok := errors.AsType[*session.Error](err)
	return ok && (e.Code == session.CodeInvalidParams || e.Code == codeResourceNotFound) || !s.exists(server)
}

// updated notifies the clients that watch a resource of a server. owner is the only
// client that uses the server's session, nil if several may.
func (s *watches) updated(server string, owner session.Client, m session.Message) {
	uri, _ := wire.String(wire.Member(m.Params, "uri"))
	at := catalog.Address{Server: server, URI: uri}
	var watching []*watch
	s.mu.Lock()
	for w := range s.all {
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

package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
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
	// maxSubscriptions bounds the resources to which one client subscribes,
	// maxWatches those of all clients, and maxListeners the requests for changes of
	// all clients, also those of the router's other servers.
	maxSubscriptions = 1000
	maxWatches       = 20_000
	maxListeners     = 10_000

	// subscribersAtOnce bounds how many subscriptions of one request are made at a
	// time: each may wait for its server.
	subscribersAtOnce = 16

	// maxEarly bounds the messages that are kept until the client knows what it
	// subscribed to.
	maxEarly = 100

	// maxRefusals is how often a subscription is asked for again that is refused: a server that
	// has just started may not know all resources yet.
	maxRefusals = 3

	// watchAgainAfter is the pause before a subscription is asked for again that its
	// server has forgotten.
	watchAgainAfter = time.Second
)

// subscriptions are the resources and lists of whose changes clients want to be
// notified.
type subscriptions struct {
	router  eventSource
	catalog *catalog.Catalog
	log     *zap.Logger
	ending  chan struct{} // closed when the router ends
	quotas  *subscriptionQuotas
	joined  func() // called when a client is to be notified

	mu        sync.Mutex // guards what follows
	listeners map[*listener]bool
	watches   map[*watch]bool
	legacy    map[*conversation.Conversation]*legacySubscriptions
}

// subscriptionQuotas bound the subscriptions of all servers of a router.
type subscriptionQuotas struct{ listeners, watches *budget.Quota }

func newSubscriptionQuotas() *subscriptionQuotas {
	return &subscriptionQuotas{budget.NewQuota(maxListeners, maxListeners), budget.NewQuota(maxWatches, maxWatches)}
}

func newSubscriptions(r eventSource, c *catalog.Catalog, q *subscriptionQuotas, log *zap.Logger) *subscriptions {
	return &subscriptions{
		router: r, catalog: c, log: log, ending: make(chan struct{}), quotas: q,
		listeners: make(map[*listener]bool), watches: make(map[*watch]bool),
		legacy: make(map[*conversation.Conversation]*legacySubscriptions),
	}
}

// any reports whether a modern client listens.
func (s *subscriptions) any() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.listeners) > 0
}

// A listener is a modern client's request to be notified of changes.
type listener struct {
	request *conversation.Request
	filter  map[string]bool // members of changes

	mu    sync.Mutex        // guards what follows, and the order of what is sent
	early []session.Message // that came before the client knew what it subscribed to
	ready bool
}

func (l *listener) notify(m session.Message) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ready {
		l.send(m)
	} else if len(l.early) < maxEarly {
		l.early = append(l.early, m)
	}
}

// acknowledge says what the client has subscribed to, and sends what came before.
func (l *listener) acknowledge(agreed json.RawMessage) {
	l.mu.Lock()
	defer l.mu.Unlock()
	params := fmt.Appendf(nil, `{"notifications":%s}`, agreed)
	l.send(session.Message{Method: "notifications/subscriptions/acknowledged", Params: params})
	for _, m := range l.early {
		l.send(m)
	}
	l.early, l.ready = nil, true
}

func (l *listener) send(m session.Message) {
	params := m.Params
	if params == nil {
		params = json.RawMessage("{}")
	}
	params = conversation.WithMeta(params, conversation.MetaSubscription, l.request.ID)
	l.request.Send(wire.AppendNotification(nil, m.Method, params))
}

// listen answers subscriptions/listen: it notifies a modern client of changes until
// the client cancels or the router ends.
func (s *subscriptions) listen(ctx context.Context, c conversation.Call) (json.RawMessage, error) {
	wanted := wire.Member(c.Params, "notifications")
	if !wire.IsObject(wanted) {
		return nil, conversation.InvalidParams("subscriptions/listen needs notifications")
	}
	var uris []string
	if raw := wire.Member(wanted, "resourceSubscriptions"); raw != nil && json.Unmarshal(raw, &uris) != nil || len(uris) > maxSubscriptions {
		return nil, conversation.InvalidParams(fmt.Sprintf("resourceSubscriptions must be an array of at most %d URIs", maxSubscriptions))
	}
	l := &listener{request: c.Request, filter: make(map[string]bool)}
	agreed := make(map[string]any)
	for _, change := range changes {
		if string(wire.Member(wanted, change.member)) == "true" {
			l.filter[change.member] = true
			agreed[change.member] = true
		}
	}
	if !s.quotas.listeners.Take("") {
		return nil, conversation.Internal(fmt.Sprintf("busy: clients have %d requests for changes open", maxListeners))
	}
	defer s.quotas.listeners.Release("")
	s.mu.Lock()
	s.listeners[l] = true
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(s.listeners, l)
		s.mu.Unlock()
	}()
	s.joined()
	var watching, waiting sync.WaitGroup
	defer waiting.Wait()
	defer watching.Wait()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	nothing := make(chan struct{}) // closed when there is nothing left of which to notify the client
	if known := s.watchAll(ctx, &watching, c.Request, uris, l.notify); len(known) > 0 {
		agreed["resourceSubscriptions"] = known
		if len(l.filter) == 0 {
			waiting.Go(func() {
				watching.Wait()
				close(nothing)
			})
		}
	}
	l.acknowledge(wire.Marshal(agreed))
	select {
	case <-nothing:
		if ctx.Err() == nil {
			return json.RawMessage("{}"), nil
		}
		return nil, context.Cause(ctx)
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-s.ending:
		return json.RawMessage("{}"), nil
	}
}

// legacySubscriptions are the resources of whose changes a legacy client is notified.
type legacySubscriptions struct {
	stop    map[string]context.CancelFunc // by URI
	running sync.WaitGroup
}

// subscribe answers resources/subscribe of a legacy client.
func (s *subscriptions) subscribe(ctx context.Context, c conversation.Call) (json.RawMessage, error) {
	uri, err := c.Text("uri")
	if err != nil {
		return nil, err
	}
	if c.Visitor {
		return nil, conversation.InvalidRequest("a subscription needs a session")
	}
	life, stop := context.WithCancel(context.WithoutCancel(ctx))
	own, added, err := s.add(c.Conversation, uri, stop)
	if !added || err != nil {
		stop()
		return json.RawMessage("{}"), err
	}
	notify := func(m session.Message) { c.Conversation.Notify("", m) }
	if err := s.watch(ctx, life, &own.running, c.Conversation, uri, notify, func() { s.remove(c.Conversation, uri) }); err != nil {
		s.remove(c.Conversation, uri)
		return nil, err
	}
	return json.RawMessage("{}"), nil
}

// unsubscribe answers resources/unsubscribe of a legacy client.
func (s *subscriptions) unsubscribe(_ context.Context, c conversation.Call) (json.RawMessage, error) {
	uri, err := c.Text("uri")
	if err != nil {
		return nil, err
	}
	s.remove(c.Conversation, uri)
	return json.RawMessage("{}"), nil
}

// add keeps what ends a legacy subscription, unless the client has one already.
func (s *subscriptions) add(c *conversation.Conversation, uri string, stop context.CancelFunc) (own *legacySubscriptions, added bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	own = s.legacy[c]
	if own == nil {
		own = &legacySubscriptions{stop: make(map[string]context.CancelFunc)}
		s.legacy[c] = own
	}
	if _, known := own.stop[uri]; known {
		return own, false, nil
	}
	if len(own.stop) >= maxSubscriptions {
		return own, false, conversation.Internal(fmt.Sprintf("a client can have %d subscriptions", maxSubscriptions))
	}
	own.stop[uri] = stop
	return own, true, nil
}

// remove ends a legacy subscription.
func (s *subscriptions) remove(c *conversation.Conversation, uri string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if own := s.legacy[c]; own != nil && own.stop[uri] != nil {
		own.stop[uri]()
		delete(own.stop, uri)
	}
}

// left ends the subscriptions of a legacy client that has left, and waits for them.
func (s *subscriptions) left(c *conversation.Conversation) {
	s.mu.Lock()
	own := s.legacy[c]
	delete(s.legacy, c)
	s.mu.Unlock()
	if own == nil {
		return
	}
	for _, stop := range own.stop {
		stop()
	}
	own.running.Wait()
}

// A watch is a subscription to a resource on behalf of a client.
type watch struct {
	at     catalog.Address
	home   session.Client // nil if the client has no session
	notify func(session.Message)
	uri    string          // by which the client knows the resource
	ended  <-chan struct{} // closed when the client has given it up
}

// watchAll subscribes to resources until ctx ends, and returns those that exist.
func (s *subscriptions) watchAll(ctx context.Context, running *sync.WaitGroup, from session.Client, uris []string, notify func(session.Message)) (known []string) {
	uris = slices.Clone(uris)
	slices.Sort(uris)
	uris = slices.Compact(uris)
	watched := make([]bool, len(uris))
	var g errgroup.Group
	g.SetLimit(subscribersAtOnce)
	for i, uri := range uris {
		g.Go(func() error {
			watched[i] = s.watch(ctx, ctx, running, from, uri, notify, func() {}) == nil
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

// watch subscribes to a resource, now and whenever its server has a new session,
// until life ends, or until the resource does not exist for the client any more: then ended is
// called. running counts the goroutine that does.
func (s *subscriptions) watch(ctx, life context.Context, running *sync.WaitGroup, from session.Client, uri string, notify func(session.Message), ended func()) error {
	found, err := locate(ctx, s.catalog, uri)
	if err != nil {
		return err
	}
	at := found[0]
	w := &watch{at: at, home: from.Home(), notify: notify, uri: uri, ended: life.Done()}
	if !s.quotas.watches.Take("") {
		return conversation.Internal(fmt.Sprintf("busy: clients have %d subscriptions together", maxWatches))
	}
	s.mu.Lock()
	s.watches[w] = true
	s.mu.Unlock()
	forget := func() {
		s.mu.Lock()
		delete(s.watches, w)
		s.mu.Unlock()
		s.quotas.watches.Release("")
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
func (s *subscriptions) refused(server string, err error) bool {
	if err == nil {
		return false
	}
	e, ok := errors.AsType[*session.Error](err)
	return ok && (e.Code == session.CodeInvalidParams || e.Code == codeResourceNotFound) || !s.catalog.HasServer(server)
}

// updated notifies the clients that watch a resource of a server. owner is the only
// client that uses the server's session, nil if several may.
func (s *subscriptions) updated(server string, owner session.Client, m session.Message) {
	uri, _ := wire.String(wire.Member(m.Params, "uri"))
	at := catalog.Address{Server: server, URI: uri}
	var watching []*watch
	s.mu.Lock()
	for w := range s.watches {
		if w.at == at && (owner == nil || w.home == owner) {
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

// changed notifies the modern clients that listen for changes of a list.
func (s *subscriptions) changed(member string, m session.Message) {
	s.mu.Lock()
	listeners := slices.Collect(maps.Keys(s.listeners))
	s.mu.Unlock()
	for _, l := range listeners {
		if l.filter[member] {
			l.notify(m)
		}
	}
}

// end answers all requests for changes.
func (s *subscriptions) end() { close(s.ending) }

// sleep reports false if ctx ends before d has passed.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

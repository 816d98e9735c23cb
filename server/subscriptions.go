package server

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/server/internal/conversation"
)

const (
	// maxSubscriptions bounds the resources to which one client subscribes,
	// maxWatches the resources of all clients, and maxListeners the requests for changes of
	// all clients, also at the router's other servers.
	maxSubscriptions = 1000
	maxWatches       = 20_000
	maxListeners     = 10_000

	// maxNodeSubscriptions bounds the resources to which one node subscribes on behalf of all its clients.
	maxNodeSubscriptions = 10_000

	// maxEarly bounds the messages that are kept until the client has the acknowledgement.
	maxEarly = 100
)

// subscriptions are the resources and lists about changes of which clients want to be
// notified.
type subscriptions struct {
	watches *watches
	ending  chan struct{}       // closed when the router ends
	quota   *conversation.Quota // of listeners
	each    int                 // bounds the resources of one client
	joined  func()              // called when a client is to be notified

	mu        sync.Mutex // guards the fields below
	listeners map[*listener]bool
	legacy    map[*conversation.Conversation]*legacySubscriptions
}

// subscriptionQuotas bound the subscriptions of all servers of a router.
type subscriptionQuotas struct {
	listeners, watches *conversation.Quota
	each               int // bounds the resources of one client
}

func newSubscriptionQuotas() *subscriptionQuotas {
	return &subscriptionQuotas{conversation.NewQuota(maxListeners, maxListeners, 0, 0), conversation.NewQuota(maxWatches, maxWatches, 0, 0), maxSubscriptions}
}

func newNodeSubscriptionQuotas() *subscriptionQuotas {
	q := newSubscriptionQuotas()
	q.each = maxNodeSubscriptions
	return q
}

// newSubscriptions returns the subscriptions of the clients of a server. w has the resources.
func newSubscriptions(w *watches, q *subscriptionQuotas) *subscriptions {
	w.quota, w.all = q.watches, make(map[*watch]bool)
	return &subscriptions{
		watches: w, ending: make(chan struct{}), quota: q.listeners, each: q.each, listeners: make(map[*listener]bool), joined: func() {},
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

	mu    sync.Mutex        // guards the fields below, and the order of messages
	early []session.Message // that came before the acknowledgement
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

// acknowledge confirms the subscriptions of the client, and sends the messages that came before.
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
	m.Params = wire.SetMeta(params, conversation.MetaSubscription, l.request.ID)
	conversation.Notify(l.request, m)
}

// listen answers subscriptions/listen: it notifies a modern client of changes until
// the client cancels or the router ends.
func (s *subscriptions) listen(ctx context.Context, c conversation.Call) (json.RawMessage, error) {
	wanted := wire.Member(c.Params, "notifications")
	if !wire.IsObject(wanted) {
		return nil, conversation.InvalidParams("subscriptions/listen needs notifications")
	}
	var uris []string
	if raw := wire.Member(wanted, "resourceSubscriptions"); raw != nil && json.Unmarshal(raw, &uris) != nil || len(uris) > s.each {
		return nil, conversation.InvalidParams(fmt.Sprintf("resourceSubscriptions must be an array of at most %d URIs", s.each))
	}
	l := &listener{request: c.Request, filter: make(map[string]bool)}
	agreed := make(map[string]any)
	for _, change := range changes {
		if string(wire.Member(wanted, change.member)) == "true" {
			l.filter[change.member] = true
			agreed[change.member] = true
		}
	}
	if !s.quota.Take("", 0) {
		return nil, conversation.Internal(fmt.Sprintf("busy: clients have %d requests for changes open", maxListeners))
	}
	defer s.quota.Release("", 0)
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
	if known := s.watches.addAll(ctx, &watching, c.Request, uris, l.notify); len(known) > 0 {
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

// legacySubscriptions are the resources about changes of which a legacy client is notified.
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
	if err := s.watches.add(ctx, life, &own.running, c.Conversation, uri, notify, func() { s.remove(c.Conversation, uri) }); err != nil {
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

// add keeps the function that ends a legacy subscription, unless the client has one already.
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
	if len(own.stop) >= s.each {
		return own, false, conversation.Internal(fmt.Sprintf("a client can have %d subscriptions", s.each))
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

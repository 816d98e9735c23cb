package server

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/server/internal/budget"
	"github.com/mcp-metarouter/metarouter/server/internal/catalog"
	"github.com/mcp-metarouter/metarouter/server/internal/conversation"
)

// maxEarly bounds the messages that are kept until the client has the acknowledgement.
const maxEarly = 100

// subscriptions are the resources and lists about changes of which clients of one server want to be
// notified.
type subscriptions struct {
	router subscriber
	locate func(ctx context.Context, uri string) ([]catalog.Address, error)
	log    *zap.Logger
	budget *budget.Budget // common to the servers of one router
	ending chan struct{}  // closed when the router ends
	joined func()         // called when a client is to be notified

	mu        sync.Mutex // guards the fields below
	watches   map[session.Client]*clientWatches
	listeners map[*listener]bool
}

// newSubscriptions returns the subscriptions of the clients of a server. locate returns where to ask for a resource.
func newSubscriptions(r subscriber, locate func(ctx context.Context, uri string) ([]catalog.Address, error), b *budget.Budget, log *zap.Logger) *subscriptions {
	return &subscriptions{
		router: r, locate: locate, log: log, budget: b, ending: make(chan struct{}), joined: func() {},
		watches: make(map[session.Client]*clientWatches), listeners: make(map[*listener]bool),
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
	m.Params = wire.SetMeta(wire.OrEmpty(m.Params), conversation.MetaSubscription, l.request.ID)
	l.request.Notify("", m)
}

// listen answers subscriptions/listen: it notifies a modern client of changes until
// the client cancels or the router ends.
func (s *subscriptions) listen(ctx context.Context, c conversation.Call) (json.RawMessage, error) {
	wanted := wire.Member(c.Params, "notifications")
	if !wire.IsObject(wanted) {
		return nil, session.InvalidParams("subscriptions/listen needs notifications")
	}
	var uris []string
	most := s.budget.Bound(budget.Watches).Each
	if raw := wire.Member(wanted, "resourceSubscriptions"); raw != nil && json.Unmarshal(raw, &uris) != nil || len(uris) > most {
		return nil, session.InvalidParams(fmt.Sprintf("resourceSubscriptions must be an array of at most %d URIs", most))
	}
	l := &listener{request: c.Request, filter: make(map[string]bool)}
	agreed := make(map[string]any)
	for _, member := range changes {
		if string(wire.Member(wanted, member)) == "true" {
			l.filter[member] = true
			agreed[member] = true
		}
	}
	if s.budget.Take(budget.Listeners, nil, 0) != nil {
		return nil, session.Internal(fmt.Sprintf("busy: clients have %d requests for changes open", s.budget.Bound(budget.Listeners).All))
	}
	defer s.budget.Release(budget.Listeners, nil, 0)
	s.mu.Lock()
	s.listeners[l] = true
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(s.listeners, l)
		s.mu.Unlock()
	}()
	s.joined()
	defer s.left(c.Request)
	if known := s.watchAll(ctx, c.Request, uris, l.notify); len(known) > 0 {
		agreed["resourceSubscriptions"] = known
	}
	l.acknowledge(wire.Marshal(agreed))
	select {
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-s.ending:
		return json.RawMessage("{}"), nil
	}
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
	notify := func(m session.Message) { c.Conversation.Notify("", m) }
	return json.RawMessage("{}"), s.watch(ctx, c.Conversation, uri, notify)
}

// unsubscribe answers resources/unsubscribe of a legacy client.
func (s *subscriptions) unsubscribe(_ context.Context, c conversation.Call) (json.RawMessage, error) {
	uri, err := c.Text("uri")
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if own := s.watches[c.Conversation]; own != nil && own.byURI[uri] != nil {
		s.drop(own.byURI[uri])
	}
	return json.RawMessage("{}"), nil
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

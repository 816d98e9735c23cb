package server

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/session"
)

const (
	// coalesce is how long changes are gathered before clients are told, and
	// announceEvery the least time between two notifications.
	coalesce      = 100 * time.Millisecond
	announceEvery = 500 * time.Millisecond

	// rewatchAfter is the pause before a subscription is asked for again that its
	// server has forgotten.
	rewatchAfter = time.Second
)

// changes are the notifications that a list has changed, and the member by which
// a modern client asks for them.
var changes = []struct{ notification, member string }{
	{"notifications/tools/list_changed", "toolsListChanged"},
	{"notifications/prompts/list_changed", "promptsListChanged"},
	{"notifications/resources/list_changed", "resourcesListChanged"},
}

// A listener is a modern client's request to be told of changes.
type listener struct {
	request *request
	filter  map[string]bool // members of changes

	mu    sync.Mutex        // guards what follows, and the order of what is sent
	early []session.Message // that came before the client knew what it subscribed to
	ready bool
}

// maxListeners bounds the listeners of all clients together.
const maxListeners = 10_000

// maxEarly bounds what is kept until the client knows what it subscribed to.
const maxEarly = 100

func (l *listener) tell(m session.Message) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ready {
		l.send(m)
	} else if len(l.early) < maxEarly {
		l.early = append(l.early, m)
	}
}

// acknowledge says what the client has subscribed to, and then what it missed.
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
	params = withMeta(params, metaSubscription, l.request.id)
	l.request.out.send(wire.AppendNotification(nil, m.Method, params))
}

// listen tells a modern client of changes until it cancels or the router ends.
func listen(ctx context.Context, c *call) (json.RawMessage, error) {
	s := c.server
	wanted := wire.Member(c.params, "notifications")
	if !wire.IsObject(wanted) {
		return nil, invalidParams("subscriptions/listen needs notifications")
	}
	var uris []string
	if raw := wire.Member(wanted, "resourceSubscriptions"); raw != nil && json.Unmarshal(raw, &uris) != nil || len(uris) > maxSubscriptions {
		return nil, invalidParams(fmt.Sprintf("resourceSubscriptions must be an array of at most %d URIs", maxSubscriptions))
	}
	l := &listener{request: c.request, filter: make(map[string]bool)}
	agreed := make(map[string]any)
	for _, change := range changes {
		if string(wire.Member(wanted, change.member)) == "true" {
			l.filter[change.member] = true
			agreed[change.member] = true
		}
	}
	s.mu.Lock()
	room := len(s.listeners) < maxListeners
	if room {
		s.listeners[l] = true
	}
	s.mu.Unlock()
	if !room {
		return nil, &session.Error{Code: session.CodeInternal, Message: fmt.Sprintf("busy: clients have %d requests for changes open", maxListeners)}
	}
	defer func() {
		s.mu.Lock()
		delete(s.listeners, l)
		s.mu.Unlock()
	}()
	var watching sync.WaitGroup
	defer watching.Wait()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	if known := s.watchAll(ctx, &watching, c.request, uris, l.tell); len(known) > 0 {
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

// subscribersAtOnce bounds how many subscriptions of one request are made at a
// time: each may wait for its server.
const subscribersAtOnce = 16

// watchAll subscribes to resources until ctx ends, and returns those that there
// are.
func (s *Server) watchAll(ctx context.Context, running *sync.WaitGroup, from session.Client, uris []string, tell func(session.Message)) (known []string) {
	uris = slices.Clone(uris)
	slices.Sort(uris)
	uris = slices.Compact(uris)
	watched := make([]bool, len(uris))
	var g errgroup.Group
	g.SetLimit(subscribersAtOnce)
	for i, uri := range uris {
		g.Go(func() error {
			watched[i] = s.watch(ctx, ctx, running, from, uri, tell) == nil
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

// maxWatches bounds the subscriptions of all clients together.
const maxWatches = 20_000

// A watch is a subscription to a resource on behalf of a client.
type watch struct {
	at   address
	home session.Client // nil if the client has none
	tell func(session.Message)
	uri  string // by which the client knows it
}

// watch subscribes to a resource, now and whenever its server has a new session,
// until life ends. running counts the goroutine that does.
func (s *Server) watch(ctx, life context.Context, running *sync.WaitGroup, from session.Client, uri string, tell func(session.Message)) error {
	found, err := s.locate(ctx, uri)
	if err != nil {
		return err
	}
	at := found[0]
	w := &watch{at: at, home: from.Home(), tell: tell, uri: uri}
	s.mu.Lock()
	room := len(s.watches) < maxWatches
	if room {
		s.watches[w] = true
	}
	s.mu.Unlock()
	if !room {
		return &session.Error{Code: session.CodeInternal, Message: fmt.Sprintf("busy: clients have %d subscriptions together", maxWatches)}
	}
	forget := func() {
		s.mu.Lock()
		delete(s.watches, w)
		s.mu.Unlock()
	}
	done, cancel, err := s.router.Subscribe(ctx, at.server, at.uri, from)
	if err != nil {
		forget()
		return err
	}
	running.Go(func() {
		defer forget()
		for {
			select {
			case <-life.Done():
				if cancel != nil {
					cancel()
				}
				return
			case <-done:
			}
			if !sleep(life, rewatchAfter) {
				return
			}
			if done, cancel, err = s.router.Subscribe(life, at.server, at.uri, from); err != nil {
				s.log.Debug("can't subscribe again", zap.String("server", at.server), zap.Error(err))
				expired := make(chan struct{})
				close(expired)
				done, cancel = expired, nil
			}
		}
	})
	return nil
}

// hear tells clients what a server says that belongs to no request. It runs on
// the goroutine that reads from the server.
func (s *Server) hear(server string, owner session.Client, m session.Message) {
	if m.Method == "notifications/resources/updated" {
		uri, _ := wire.String(wire.Member(m.Params, "uri"))
		s.mu.Lock()
		watches := slices.Collect(maps.Keys(s.watches))
		s.mu.Unlock()
		for _, w := range watches {
			if w.at == (address{server, uri}) && (owner == nil || w.home == owner) {
				w.tell(session.Message{Method: m.Method, Params: wire.SetMember(m.Params, "uri", wire.AppendString(nil, w.uri))})
			}
		}
		return
	}
	if owner != nil {
		owner.Notify(server, m)
		return
	}
	for _, change := range changes {
		if m.Method == change.notification {
			s.touch(change.member)
			return
		}
	}
	s.mu.Lock()
	conversations := slices.Collect(maps.Keys(s.conversations))
	s.mu.Unlock()
	for _, c := range conversations {
		if c.principal != conversations[0].principal {
			return // it may be about what one of them does, and the others are not to know
		}
	}
	for _, c := range conversations {
		c.Notify(server, m)
	}
}

// touch has clients told that a list has changed, though it may be what it was: so
// its server says.
func (s *Server) touch(member string) {
	s.mu.Lock()
	s.touched[member] = true
	s.mu.Unlock()
	select {
	case s.touches <- struct{}{}:
	default:
	}
}

// Run tells clients when lists have changed, until ctx ends. Many changes at once
// are one notification. It must run while clients are served.
func (s *Server) Run(ctx context.Context) error {
	defer s.router.Listen(s.hear)()
	defer close(s.ending)
	last, crossed := s.firstLists(), false
	for {
		changed := s.router.Changed()
		if now := s.view().lists; s.tellChanges(last, now) {
			last = now
			if !crossed {
				crossed = s.warnOfBudget()
			}
			if !sleep(ctx, announceEvery) {
				return nil
			}
			continue
		}
		select {
		case <-changed:
		case <-s.touches:
		case <-ctx.Done():
			return nil
		}
		if !sleep(ctx, coalesce) {
			return nil
		}
	}
}

// firstLists returns the lists as they were when the server was made: clients may
// have them.
func (s *Server) firstLists() map[string]list {
	first := s.view()
	if first.snapshot != s.began {
		first = s.viewOf(s.began)
	}
	s.began = nil
	return first.lists
}

// tellChanges tells all clients that want it which lists differ or were touched,
// and reports whether any was.
func (s *Server) tellChanges(last, now map[string]list) (any bool) {
	differ := map[string]bool{
		"toolsListChanged":     !now["tools/list"].same(last["tools/list"]),
		"promptsListChanged":   !now["prompts/list"].same(last["prompts/list"]),
		"resourcesListChanged": !now["resources/list"].same(last["resources/list"]) || !now["resources/templates/list"].same(last["resources/templates/list"]),
	}
	s.mu.Lock()
	for member := range s.touched {
		differ[member] = true
	}
	clear(s.touched)
	conversations := slices.Collect(maps.Keys(s.conversations))
	listeners := slices.Collect(maps.Keys(s.listeners))
	s.mu.Unlock()
	for _, change := range changes {
		if !differ[change.member] {
			continue
		}
		any = true
		m := session.Message{Method: change.notification}
		for _, c := range conversations {
			c.Notify("", m)
		}
		for _, l := range listeners {
			if l.filter[change.member] {
				l.tell(m)
			}
		}
	}
	return any
}

// warnOfBudget logs that the list costs more than Auto allows, if it does.
func (s *Server) warnOfBudget() bool {
	if s.search || s.opts.Mode == Direct {
		return false
	}
	cost := s.cost()
	if cost <= s.opts.ToolBudget {
		return false
	}
	s.log.Warn("the list of tools has grown over the budget; the next start is in search mode",
		zap.Int("tokens", cost), zap.Int("budget", s.opts.ToolBudget))
	return true
}

// sleep reports false if ctx ends before d has passed.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

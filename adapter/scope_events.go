package adapter

import (
	"context"
	"encoding/json"
	"slices"
	"sync"

	"github.com/mcp-metarouter/metarouter/internal/session"
)

// Changed returns a channel that is closed at the next change of what the clients may see, and
// perhaps at others: the catalog changed, or the configuration was edited. Take it before the
// snapshot, and no change is missed while the router runs.
func (s *Scope) Changed() <-chan struct{} { return s.parts.router.changed.next() }

// A changeSignal tells when the catalog or the configuration has changed. The zero value works.
type changeSignal struct {
	mu   sync.Mutex    // guards soon
	soon chan struct{} // closed at the next change; nil until it is asked for
}

// next returns a channel that is closed at the next change.
func (c *changeSignal) next() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.soon == nil {
		c.soon = make(chan struct{})
	}
	return c.soon
}

func (c *changeSignal) send() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.soon != nil {
		close(c.soon)
		c.soon = nil
	}
}

// run sends each change of the router until ctx ends.
func (c *changeSignal) run(ctx context.Context, r *Router) {
	for {
		catalog, edited := r.registry.Changed(), r.current.load().replaced // first, so that no change is missed
		c.send()                                                           // also at first: something may have changed before
		select {
		case <-catalog:
		case <-edited:
		case <-ctx.Done():
			return
		}
	}
}

// Listen is that of [Parts], for servers and resources that the clients may see. It ends with
// what [Scope.SetLevel] asked for.
func (s *Scope) Listen(hear func(server string, owner Client, m Message)) (stop func()) {
	end := s.parts.Listen(func(server string, owner Client, m Message) {
		if s.judge().hears(server, m) {
			hear(server, owner, m)
		}
	})
	return func() {
		end()
		s.parts.router.levels.forget(s)
	}
}

// hears reports whether the clients may know of a server's message.
func (j *judgement) hears(server string, m Message) bool {
	return j.server(server) && (m.Method != "notifications/resources/updated" || j.uri(server, text(m.Params, "uri")))
}

// Subscribe is that of [Parts], for resources that the clients may see. The subscription also ends
// when an edit of the configuration does not allow it any more.
func (s *Scope) Subscribe(ctx context.Context, server, uri string, from Client) (done <-chan struct{}, cancel func(), err error) {
	v := s.now()
	if !v.server(server) {
		return nil, nil, &session.Error{Code: session.CodeInternal, Message: noServer(server).Error()}
	}
	if !v.uri(server, uri) {
		return nil, nil, noResource(uri)
	}
	ended, unsubscribe, err := s.parts.Subscribe(ctx, server, uri, from)
	if err != nil {
		return nil, nil, v.unknown(server, uri, err)
	}
	over, stop := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(over)
		for {
			j := s.judge()
			if !j.uri(server, uri) {
				unsubscribe()
				return
			}
			select {
			case <-j.setup.replaced:
			case <-ended:
				return
			case <-stop:
				unsubscribe()
				return
			}
		}
	}()
	return over, sync.OnceFunc(func() { close(stop); <-over }), nil
}

// Attach is that of [Parts]. Servers that the client may not see can't ask it for anything.
func (s *Scope) Attach(home Client) { s.parts.Attach(&scopedClient{home, s}) }

// A scopedClient is the only client of a router, to the servers that it may see.
type scopedClient struct {
	Client
	scope *Scope
}

// Ask implements [session.Client].
func (c *scopedClient) Ask(ctx context.Context, server string, m Message) (json.RawMessage, error) {
	if !c.scope.judge().server(server) {
		return nil, &session.Error{Code: session.CodeInternal, Message: "the client's profile does not have this server"}
	}
	return c.Client.Ask(ctx, server, m)
}

// Notify implements [session.Client].
func (c *scopedClient) Notify(server string, m Message) {
	if c.scope.judge().hears(server, m) {
		c.Client.Notify(server, m)
	}
}

// Release is that of [Parts].
func (s *Scope) Release(home Client) { s.parts.Release(home) }

// Tell is that of [Parts].
func (s *Scope) Tell(home Client, method string, params json.RawMessage) {
	s.parts.Tell(home, method, params)
}

// SetLevel has servers send log messages from the level on, or from a lower one that another
// scope has set: they are the same servers.
func (s *Scope) SetLevel(ctx context.Context, level string) {
	s.parts.SetLevel(ctx, s.parts.router.levels.least(s, level))
}

// severities are the levels of log messages, the least first.
var severities = []string{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}

// levels are the levels that scopes have set. The zero value has none.
type levels struct {
	mu  sync.Mutex // guards set
	set map[*Scope]string
}

// least notes the level that a scope wants, and returns the least that any wants.
func (l *levels) least(of *Scope, level string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.set == nil {
		l.set = make(map[*Scope]string)
	}
	l.set[of] = level
	for _, other := range l.set {
		if slices.Index(severities, other) < slices.Index(severities, level) {
			level = other
		}
	}
	return level
}

// forget drops the level that a scope wants.
func (l *levels) forget(of *Scope) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.set, of)
}

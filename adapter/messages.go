package adapter

import (
	"context"
	"encoding/json"
	"slices"
	"sync"

	"github.com/mcp-metarouter/metarouter/internal/execute"
	"github.com/mcp-metarouter/metarouter/internal/session"
)

// messages are the notifications, and the subscriptions to them.
type messages struct{ scoped }

// Listen has hear called with each message of a server that belongs to no request, on the goroutine
// that reads from the server: it must not block. owner is the only client that uses the server's
// session, or nil if several may. All listeners get all messages, also of other clients' sessions.
// stop also ends the effect of SetLevel.
func (m messages) Listen(hear func(server string, owner Client, one Message)) (stop func()) {
	end := m.router.listeners.Add(func(server string, owner Client, one Message) {
		if m.scope.Limits().Hears(server, one) {
			hear(server, owner, one)
		}
	})
	return func() {
		end()
		m.router.levels.forget(m.scope)
	}
}

// Subscribe has a server report when a resource changes, to Listen. done is closed when the
// subscription has ended: with the server's session, by cancel, or by an edit of the configuration
// that does not allow it any more. The error is a [*session.Error], or the cause of ctx's end.
func (m messages) Subscribe(ctx context.Context, server, uri string, from Client) (done <-chan struct{}, cancel func(), err error) {
	v := m.scope.Visible()
	if err := v.Subscribable(server, uri); err != nil {
		return nil, nil, err
	}
	waiting, endWait := context.WithTimeout(ctx, execute.StartWait)
	defer endWait()
	s, err := m.router.sessions.Session(waiting, server, from)
	if err != nil {
		return nil, nil, session.Internal(err.Error())
	}
	unsubscribe, err := s.Subscribe(waiting, uri)
	if err != nil {
		return nil, nil, v.Hide(server, uri, err)
	}
	over, stop := make(chan struct{}), make(chan struct{})
	go func() { // ends with the session at the latest
		defer close(over)
		for {
			limits := m.scope.Limits()
			if !limits.URI(server, uri) {
				unsubscribe()
				return
			}
			select {
			case <-limits.Replaced:
			case <-s.Done():
				return
			case <-stop:
				unsubscribe()
				return
			}
		}
	}()
	return over, sync.OnceFunc(func() { close(stop); <-over }), nil
}

// Release ends the sessions and tasks of a client that has left.
func (m messages) Release(home Client) {
	m.router.supervisor.Release(home)
	m.router.executor.ForgetClient(home)
	m.router.members.remotes().Release(home)
}

// Tell sends a notification to each server with a session for this client alone.
func (m messages) Tell(home Client, method string, params json.RawMessage) {
	m.router.supervisor.Notify(home, method, params)
	m.router.members.remotes().Notify(home, method, params)
}

// SetLevel has servers send log messages from the level on, such as "info", or from a lower one that
// other clients want: they are the same servers. It waits for the servers, but only for a short time.
func (m messages) SetLevel(ctx context.Context, level string) {
	level = m.router.levels.least(m.scope, level)
	m.router.members.remotes().SetLevel(ctx, level)
	m.router.supervisor.SetLevel(ctx, level)
}

// levels are the levels of log messages that clients want. The zero value is empty.
type levels struct {
	mu     sync.Mutex     // guards wanted
	wanted map[any]string // by a pointer that stands for the clients
}

// least notes the level that some clients want, and returns the least that any want.
func (l *levels) least(of any, level string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.wanted == nil {
		l.wanted = make(map[any]string)
	}
	l.wanted[of] = level
	for _, other := range l.wanted {
		if slices.Index(session.Levels, other) < slices.Index(session.Levels, level) {
			level = other
		}
	}
	return level
}

// forget drops the level that some clients want.
func (l *levels) forget(of any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.wanted, of)
}

// hear gives all listeners a message of a server that belongs to no request.
func (r *Router) hear(server string, owner Client, m Message) {
	for hear := range r.listeners.All() {
		hear(server, owner, m)
	}
}

// notifyOfChanges notifies views of each change of the catalog and the configuration until ctx ends.
func notifyOfChanges(ctx context.Context, r *Router) {
	for {
		listed, edited := r.registry.Changed(), r.current.load().replaced // first, so that no change is missed
		r.changed.Notify()                                                // also at first: something may have changed before
		select {
		case <-listed:
		case <-edited:
		case <-ctx.Done():
			return
		}
	}
}

package supervisor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/mcp-metarouter/metarouter/session"
)

// A client of the modern era over HTTP has no session with us, and a legacy
// server that asks its client for things can't serve several at a time. So each
// request has a session of such a server for itself, which the next one may use
// then: the one used last, so that what the server keeps in mind is found again.
// One that was told a client's roots is for clients with the same roots alone.

const (
	// maxLent bounds the sessions of one server that are lent at a time, and those
	// that wait to be.
	maxLent = 8

	// lentIdle is how long one of them is kept for the next request.
	lentIdle = 5 * time.Minute

	// lastNotice is how long one that is not in order still has to read.
	lastNotice = time.Second
)

var errUnused = errors.New("nobody uses it any more")

// A lent session is one that a request has for itself while it is under way. For
// all else it is the one that is shared.
type lent struct {
	*instance
	s *server
}

// Call implements [session.Session].
func (l *lent) Call(ctx context.Context, r session.Request) (json.RawMessage, error) {
	b := &borrower{Client: r.From, asking: make(chan struct{}, 1)}
	in, err := l.s.lend(ctx, l.instance, b)
	if err != nil {
		return nil, err
	}
	// From here on nobody else ends the session when the server's life does.
	kept := context.AfterFunc(in.life, func() {
		l.s.drain(in)
		in.stop(context.Cause(in.life))
	})
	in.follow(ctx, l.instance)
	r.From = b
	result, err := in.Call(ctx, r)
	_, refused := errors.AsType[*session.Error](err)
	// What the server still does for this client is not to be seen by the next.
	inOrder := (err == nil || refused) && in.settled(ctx) && kept()
	l.s.takeBack(in, b, inOrder)
	return result, err
}

// A borrower is the client of a request that has a session for itself. It is
// asked for its roots once.
type borrower struct {
	session.Client
	asking chan struct{} // holds an item while the client is asked for its roots

	mu    sync.Mutex // guards roots
	roots json.RawMessage
}

// Ask implements [session.Client].
func (b *borrower) Ask(ctx context.Context, server string, m session.Message) (json.RawMessage, error) {
	if m.Method != "roots/list" {
		return b.Client.Ask(ctx, server, m)
	}
	select {
	case b.asking <- struct{}{}:
		defer func() { <-b.asking }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if roots := b.known(); roots != nil {
		return roots, nil
	}
	roots, err := b.Client.Ask(ctx, server, m)
	if err == nil {
		b.mu.Lock()
		b.roots = roots
		b.mu.Unlock()
	}
	return roots, err
}

// known returns the roots that the client has told, nil if it has not.
func (b *borrower) known() json.RawMessage {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.roots
}

// lend returns a session that nobody else uses. It waits for one while there are
// too many.
func (s *server) lend(ctx context.Context, shared *instance, to *borrower) (*instance, error) {
	select {
	case s.lending <- struct{}{}:
	case <-ctx.Done():
		return nil, &UnavailableError{Server: s.name, State: Ready, Reason: fmt.Sprintf("%d requests are under way that each need a process of it", maxLent)}
	}
	if s.haveRoots(to) && session.Answers(to.Capabilities(), "roots/list") {
		// Only with them it is known which session the client may use.
		to.Ask(ctx, s.name, session.Message{Method: "roots/list", Params: json.RawMessage("{}")})
	}
	in, err := s.pick(to), error(nil)
	if in == nil {
		in, err = s.openFor(ctx, shared, to)
	}
	if err != nil {
		<-s.lending
		return nil, &UnavailableError{Server: s.name, State: Failed, Reason: err.Error()}
	}
	return in, nil
}

// haveRoots reports whether a session that the client might use was told roots.
func (s *server) haveRoots(to *borrower) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.lendable, func(in *instance) bool { return in.roots != nil && in.suits(to) })
}

// suits reports whether the server was told of a client that can do what this one
// can.
func (in *instance) suits(to *borrower) bool {
	return in.usable() && bytes.Equal(in.declared, to.Capabilities())
}

// pick takes a session from those that nobody uses, the one used last if there is
// a choice; nil if there is none for the client.
func (s *server) pick(to *borrower) *instance {
	roots := to.known()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, same := range []bool{true, false} { // with the client's roots, or else without any
		for i, in := range slices.Backward(s.lendable) {
			if in.suits(to) && (same && bytes.Equal(in.roots, roots) || in.roots == nil) {
				s.lendable = slices.Delete(s.lendable, i, i+1)
				in.lodge(to)
				return in
			}
		}
	}
	return nil
}

// openFor opens a session for the client.
func (s *server) openFor(ctx context.Context, shared *instance, to *borrower) (in *instance, err error) {
	s.mu.Lock()
	if s.gone {
		s.mu.Unlock()
		return nil, errors.New("the server is being stopped")
	}
	life := s.generation
	opening, cancel := context.WithCancelCause(life)
	defer cancel(nil)
	defer context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })()
	opened := make(chan struct{})
	s.own.Go(func() {
		defer close(opened)
		in, err = s.separately(opening, shared, terms{capabilities: to.Capabilities(), owner: to, era: legacyEra})
	})
	s.mu.Unlock()
	<-opened
	if err == nil {
		in.life = life
	}
	return in, err
}

// takeBack keeps the session for the next request if it is in order.
func (s *server) takeBack(in *instance, from *borrower, inOrder bool) {
	in.lodge(nil)
	defer func() { <-s.lending }()
	s.mu.Lock()
	defer s.mu.Unlock()
	if in.toldRoots() {
		in.roots = from.known()
	}
	unwanted := in
	if inOrder && in.usable() && !s.gone && in.life.Err() == nil {
		unwanted = nil
		s.lendable = append(s.lendable, in)
		s.own.Go(func() { s.shelve(in) })
	}
	if len(s.lendable) > maxLent {
		unwanted, s.lendable = s.lendable[0], slices.Delete(s.lendable, 0, 1)
	}
	if unwanted != nil {
		s.own.Go(func() {
			if !inOrder { // it may yet have to be told that its call is cancelled
				within(unwanted.done, lastNotice)
			}
			unwanted.stop(errUnused)
		})
	}
}

// shelve ends a session that waits to be lent when its time is up.
func (s *server) shelve(in *instance) {
	t := time.NewTimer(lentIdle)
	defer t.Stop()
	select {
	case <-in.lodged():
		return
	case <-t.C:
	case <-in.done:
	case <-in.life.Done():
	}
	s.mu.Lock()
	i := slices.Index(s.lendable, in)
	if i >= 0 {
		s.lendable = slices.Delete(s.lendable, i, i+1)
	}
	s.mu.Unlock()
	if i >= 0 {
		in.stop(errUnused)
	}
}

// follow subscribes to just what is subscribed to on the shared session. Only who
// has the session for himself may call it.
func (in *instance) follow(ctx context.Context, shared *instance) {
	wanted := shared.subscriptions.wanted()
	for uri, unsubscribe := range in.followed {
		if !slices.Contains(wanted, uri) {
			unsubscribe()
			delete(in.followed, uri)
		}
	}
	for _, uri := range wanted {
		if in.followed[uri] != nil {
			continue
		}
		unsubscribe, err := in.Subscribe(ctx, uri)
		if err != nil {
			return // the call itself will say what is wrong
		}
		if in.followed == nil {
			in.followed = make(map[string]func())
		}
		in.followed[uri] = unsubscribe
	}
}

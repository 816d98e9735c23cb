package supervisor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/signal"
	"github.com/mcp-metarouter/metarouter/internal/status"
	"github.com/mcp-metarouter/metarouter/supervisor/internal/peer"
)

const (
	// maxAcquired bounds the sessions of one server that are acquired at a time, and
	// those that wait to be.
	maxAcquired = 8

	// freeTime is how long a session waits for the next request.
	freeTime = 5 * time.Minute

	// cancelTime is how long a server has to read that its call was cancelled, before
	// its session ends.
	cancelTime = time.Second
)

var errUnused = errors.New("no client uses it any more")

// A pooled is a session that one request at a time uses. The next request gets the
// session used last, so that the server's state is found again. A session with a server that
// got a client's roots is for clients with the same roots only.
type pooled struct {
	*instance
	generation context.Context
	roots      json.RawMessage   // that the server has got; may be nil
	subscribed map[string]func() // functions that end its subscriptions, by URI; for the request that uses it
	taken      chan struct{}     // closed when a request acquires the session
}

// A perCallSession is for a client without a session of its own: for a call it
// acquires a session from the pool, for all else it is the shared one.
type perCallSession struct {
	*instance
	pool *pool
}

// Call implements [session.Session].
func (s *perCallSession) Call(ctx context.Context, r session.Request) (json.RawMessage, error) {
	user := &requester{Client: r.From, asking: make(chan struct{}, 1)}
	one, err := s.pool.acquire(ctx, s.instance, user)
	if err != nil {
		return nil, err
	}
	// From here on only this ends the session when its generation ends.
	detach := context.AfterFunc(one.generation, func() {
		one.drain(s.pool.opener.ending)
		one.stop(context.Cause(one.generation))
	})
	one.subscribe(ctx, s.Subscriptions.Wanted())
	r.From = user
	result, err := one.Call(ctx, r)
	_, refused := errors.AsType[*session.Error](err)
	// Later actions of the server for this client must not reach the next one. detach is
	// false if the generation has ended.
	inOrder := (err == nil || refused) && one.Questions.AwaitCalm(ctx) && detach()
	s.pool.release(one, user, inOrder)
	return result, err
}

// A requester is the client of a request that has acquired a session. It is asked for
// its roots once.
type requester struct {
	session.Client
	asking chan struct{}                   // holds an item while the client is asked for its roots
	roots  atomic.Pointer[json.RawMessage] // nil if it has not been asked for them
}

// Ask implements [session.Client].
func (r *requester) Ask(ctx context.Context, server string, m session.Message) (json.RawMessage, error) {
	if m.Method != "roots/list" {
		return r.Client.Ask(ctx, server, m)
	}
	select {
	case r.asking <- struct{}{}:
		defer func() { <-r.asking }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if roots := r.known(); roots != nil {
		return roots, nil
	}
	roots, err := r.Client.Ask(ctx, server, m)
	if err == nil {
		r.roots.Store(&roots)
	}
	return roots, err
}

// known returns the client's roots, nil if it has not been asked for them.
func (r *requester) known() json.RawMessage {
	if roots := r.roots.Load(); roots != nil {
		return *roots
	}
	return nil
}

// acquire returns a session that no other request uses. It waits for one while too
// many are acquired.
func (p *pool) acquire(ctx context.Context, shared *instance, user *requester) (*pooled, error) {
	select {
	case p.slots <- struct{}{}:
	case <-ctx.Done():
		return nil, p.opener.unavailable(status.Ready, fmt.Sprintf("%d requests are under way that each need a process of it", maxAcquired))
	}
	p.mu.Lock()
	rooted := slices.ContainsFunc(p.free, func(one *pooled) bool { return one.roots != nil && one.fits(user, shared.user) })
	p.mu.Unlock()
	if rooted && session.Answers(user.Capabilities(), "roots/list") {
		// Only with its roots it is known which session the client may use.
		user.Ask(ctx, p.opener.name, session.Message{Method: "roots/list", Params: json.RawMessage("{}")})
	}
	one, err := p.pick(user, shared.user), error(nil)
	if one == nil {
		one, err = p.openFor(ctx, shared, user)
	}
	if err != nil {
		<-p.slots
		return nil, p.opener.failed(err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.used[one] = true
	return one, nil
}

// fits reports whether the server was sent the capabilities that the client has, and the session is for its principal.
func (one *pooled) fits(user *requester, of *user) bool {
	return one.Usable() && one.user == of && bytes.Equal(one.declared, user.Capabilities())
}

// pick takes a free session, the one used last if there is a choice; nil if no session is
// for the client.
func (p *pool) pick(user *requester, of *user) *pooled {
	roots := user.known()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, same := range []bool{true, false} { // with the client's roots, or else without any
		for i, one := range slices.Backward(p.free) {
			if one.fits(user, of) && (same && bytes.Equal(one.roots, roots) || one.roots == nil) {
				p.free = slices.Delete(p.free, i, i+1)
				one.owner.set(user)
				close(one.taken)
				return one
			}
		}
	}
	return nil
}

// openFor opens a session for the client.
func (p *pool) openFor(ctx context.Context, shared *instance, user *requester) (*pooled, error) {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return nil, errors.New("the server is being stopped")
	}
	one := &pooled{generation: shared.user.within(p.generation), subscribed: make(map[string]func())}
	opening, cancel := context.WithCancelCause(one.generation)
	defer cancel(nil)
	defer context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })()
	opened := make(chan struct{})
	var err error
	p.opener.running.Go(func() {
		defer close(opened)
		one.instance, err = p.opener.openNext(opening, shared, terms{capabilities: user.Capabilities(), owner: user, era: peer.LegacyEra, user: shared.user})
	})
	p.mu.Unlock()
	<-opened
	return one, err
}

// release keeps the session for the next request if it is in order: its call was
// answered, and the server waits for no answer of the client.
func (p *pool) release(one *pooled, user *requester, inOrder bool) {
	one.owner.set(nil)
	defer func() { <-p.slots }()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.used, one)
	if one.Questions.RootsSent() {
		one.roots = user.known()
	}
	unwanted := one
	if inOrder && one.Usable() && !p.closed && one.generation.Err() == nil {
		unwanted = nil
		taken := make(chan struct{})
		one.taken = taken
		p.free = append(p.free, one)
		p.opener.running.Go(func() { one.expire(p, taken) })
	}
	if len(p.free) > maxAcquired {
		unwanted, p.free = p.free[0], slices.Delete(p.free, 0, 1)
	}
	if unwanted != nil {
		p.opener.running.Go(func() {
			if !inOrder { // the server may have to read that its call is cancelled
				signal.Within(unwanted.done, cancelTime)
			}
			unwanted.stop(errUnused)
		})
	}
}

// expire ends a free session of the pool when its time is up.
func (one *pooled) expire(p *pool, taken chan struct{}) {
	select {
	case <-taken:
		return
	case <-time.After(freeTime):
	case <-one.done:
	case <-one.generation.Done():
	}
	p.mu.Lock()
	i := slices.Index(p.free, one)
	unused := i >= 0 && one.taken == taken // not acquired and released meanwhile
	if unused {
		p.free = slices.Delete(p.free, i, i+1)
	}
	p.mu.Unlock()
	if unused {
		one.stop(errUnused)
	}
}

// subscribe subscribes to the wanted resources and to no others. Only the request that
// has acquired the session may call it.
func (one *pooled) subscribe(ctx context.Context, wanted []string) {
	for uri, unsubscribe := range one.subscribed {
		if !slices.Contains(wanted, uri) {
			unsubscribe()
			delete(one.subscribed, uri)
		}
	}
	for _, uri := range wanted {
		if one.subscribed[uri] != nil {
			continue
		}
		unsubscribe, err := one.Subscribe(ctx, uri)
		if err != nil {
			return // the call itself returns the error
		}
		one.subscribed[uri] = unsubscribe
	}
}

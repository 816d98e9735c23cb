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

	"golang.org/x/sync/semaphore"

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

// A perCallSession is for a client without a session of its own: for a call it
// acquires a session from the pool, for all else it is the shared one.
type perCallSession struct {
	*instance
	pool       *pool
	generation context.Context // of the instance
}

// Call implements [session.Session].
func (s *perCallSession) Call(ctx context.Context, r session.Request) (json.RawMessage, error) {
	user := &requester{Client: r.From, asking: semaphore.NewWeighted(1)}
	c, err := s.pool.acquire(ctx, s, user)
	if err != nil {
		return nil, err
	}
	c.subscribe(ctx, s.Subscriptions.Wanted())
	r.From = user
	result, err := c.in.Call(ctx, r)
	_, refused := errors.AsType[*session.Error](err)
	// Later actions of the server for this client must not reach the next one.
	s.pool.release(c, user, (err == nil || refused) && c.in.Questions.AwaitCalm(ctx))
	return result, err
}

// A requester is the client of a request that has acquired a session. It is asked for
// its roots once.
type requester struct {
	session.Client
	asking *semaphore.Weighted             // of 1, while the client is asked for its roots
	roots  atomic.Pointer[json.RawMessage] // nil if it has not been asked for them
}

// Ask implements [session.Client].
func (r *requester) Ask(ctx context.Context, server string, m session.Message) (json.RawMessage, error) {
	if m.Method != "roots/list" {
		return r.Client.Ask(ctx, server, m)
	}
	if r.asking.Acquire(ctx, 1) != nil {
		return nil, context.Cause(ctx)
	}
	defer r.asking.Release(1)
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
// many are acquired. A server that got a client's roots is for clients with the same roots only.
func (p *pool) acquire(ctx context.Context, shared *perCallSession, user *requester) (*clientSession, error) {
	select {
	case p.slots <- struct{}{}:
	case <-ctx.Done():
		return nil, p.opener.unavailable(status.Ready, fmt.Sprintf("%d requests are under way that each need a process of it", maxAcquired))
	}
	p.mu.Lock()
	rooted := p.byUse.where(func(c *clientSession) bool { return c.roots != nil && c.fits(user, shared.user) })
	p.mu.Unlock()
	if len(rooted) > 0 && session.Answers(user.Capabilities(), "roots/list") {
		// Only with its roots it is known which session the client may use.
		user.Ask(ctx, p.opener.name, session.Message{Method: "roots/list", Params: json.RawMessage("{}")})
	}
	c := p.pick(user, shared.user)
	var err error
	if c == nil {
		c, err = p.openFor(ctx, shared, user)
	}
	if err != nil {
		<-p.slots
		return nil, p.opener.failed(err)
	}
	return c, nil
}

// fits reports whether the session is free, its server was sent the capabilities that the client has, and it is for the client's
// principal. The lock of the pool must be held.
func (c *clientSession) fits(user *requester, of *user) bool {
	return c.free && c.in.Usable() && c.on.user == of && bytes.Equal(c.on.capabilities, user.Capabilities())
}

// pick takes the free session for the client that was used last, so that the server's state is found again; nil if no session is
// for the client.
func (p *pool) pick(user *requester, of *user) *clientSession {
	roots := user.known()
	p.mu.Lock()
	defer p.mu.Unlock()
	fitting := p.byUse.where(func(c *clientSession) bool {
		return c.fits(user, of) && (c.roots == nil || bytes.Equal(c.roots, roots))
	})
	if len(fitting) == 0 {
		return nil
	}
	c := slices.MinFunc(fitting, byIdleTime)
	c.free = false
	c.in.setOwner(user)
	return c
}

// openFor opens a session for the client.
func (p *pool) openFor(ctx context.Context, shared *perCallSession, user *requester) (*clientSession, error) {
	p.mu.Lock()
	p.requests++
	c := p.begin(shared.instance, use{request: p.requests}, terms{
		generation: shared.generation, capabilities: user.Capabilities(), owner: user, era: peer.LegacyEra,
		users: "one request at a time", reason: "the server asks for what only the client of a request can answer",
	})
	p.mu.Unlock()
	if c == nil {
		return nil, errors.New("the server is being stopped")
	}
	defer context.AfterFunc(ctx, func() { c.end(context.Cause(ctx)) })()
	<-c.ready
	return c, c.err
}

// release keeps the session for the next request if it is in order: its call was
// answered, and the server waits for no answer of the client.
func (p *pool) release(c *clientSession, user *requester, inOrder bool) {
	defer func() { <-p.slots }()
	p.mu.Lock()
	defer p.mu.Unlock()
	c.in.setOwner(nil)
	if c.in.Questions.RootsSent() {
		c.roots = user.known()
	}
	unwanted := c
	if c.free = inOrder && c.in.Usable() && c.life.Err() == nil; c.free {
		free := p.byUse.where(func(c *clientSession) bool { return c.free })
		if len(free) <= maxAcquired {
			return
		}
		unwanted = slices.MaxFunc(free, byIdleTime)
	}
	delete(p.byUse, unwanted.of)
	p.opener.running.Go(func() {
		if !inOrder { // the server may have to read that its call is cancelled
			signal.Within(unwanted.in.done, cancelTime)
		}
		unwanted.end(errUnused)
	})
}

// subscribe subscribes to the wanted resources and to no others. Only the request that
// has acquired the session may call it.
func (c *clientSession) subscribe(ctx context.Context, wanted []string) {
	for uri, unsubscribe := range c.subscribed {
		if !slices.Contains(wanted, uri) {
			unsubscribe()
			delete(c.subscribed, uri)
		}
	}
	for _, uri := range wanted {
		if c.subscribed[uri] != nil {
			continue
		}
		unsubscribe, err := c.in.Subscribe(ctx, uri)
		if err != nil {
			return // the call itself returns the error
		}
		c.subscribed[uri] = unsubscribe
	}
}

package supervisor

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/mcp-metarouter/metarouter/internal/plain"
	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/signal"
	"github.com/mcp-metarouter/metarouter/internal/status"
	"github.com/mcp-metarouter/metarouter/supervisor/internal/peer"
	"github.com/mcp-metarouter/metarouter/supervisor/internal/resolve"
)

// A pool holds the sessions with one server next to the one that all clients share.
//
// A legacy server that sends its client requests does not say which client it means
// if several use a session. So each client that can answer the questions that the server has asked
// before has a session of its own, and a request of a client without one (a modern
// client over HTTP) acquires a session and releases it when it ends (acquire.go). A server that
// speaks both eras has one more session, for all clients of the era that the shared one lacks.
//
// All of these belong to a generation, which ends when the entry changes or the
// shared session ends on purpose: their entry or process is not wanted any more.
type pool struct {
	opener *opener
	life   context.Context // of the server
	slots  chan struct{}   // holds an item for each session that is acquired

	mu            sync.Mutex // guards the fields below
	generation    context.Context
	endGeneration context.CancelCauseFunc
	byUse         clientSessions
	requests      int // sessions for requests that were begun so far
}

func newPool(life context.Context, o *opener) *pool {
	p := &pool{opener: o, life: life, slots: make(chan struct{}, maxAcquired), byUse: make(clientSessions)}
	p.generation, p.endGeneration = context.WithCancelCause(life)
	return p
}

// maxClients bounds the sessions of one server that are one client's each.
const maxClients = 100

// maxOfUser bounds the sessions of one principal other than the local user.
const maxOfUser = 5

// A use says which clients use a session that is not the one that all share.
type use struct {
	user     string         // names the only principal; "" if several may
	home     session.Client // the only client; nil if several may
	variant  string         // the key of a [Variant]; "" for the server's own
	otherEra bool           // all clients of the era that the session of this entry does not have
	request  int            // the number of a session that requests use one at a time; 0 for others
}

// A clientSession is a session that is one client's, that all clients of a use share, or that
// requests use one at a time.
type clientSession struct {
	of    use
	on    terms
	homes map[session.Client]bool // that have used the session of a variant
	in    *instance
	err   error
	ready chan struct{}   // closed when in or err is set
	life  context.Context // of the session
	end   context.CancelCauseFunc

	// The fields below belong to the request that uses the session, and with free to the pool's lock.
	free       bool              // no request uses it
	roots      json.RawMessage   // that the server has got; may be nil
	subscribed map[string]func() // functions that end its subscriptions, by URI
}

// opened reports whether the session could be opened; false while it is being opened.
func (c *clientSession) opened() bool { return signal.IsClosed(c.ready) && c.err == nil }

// clientSessions are the sessions of a pool by their use. Its lock must be held.
type clientSessions map[use]*clientSession

// where returns the sessions for which is returns true, in any order.
func (all clientSessions) where(is func(*clientSession) bool) (some []*clientSession) {
	for _, c := range all {
		if is(c) {
			some = append(some, c)
		}
	}
	return some
}

// rests reports whether the session could not be opened, and its issuer and server are left alone for [exchangeRest]. c is ready.
func (c *clientSession) rests() bool {
	u := c.on.user
	return c.err != nil && c.of.request == 0 && u != nil && u.exchange != nil && u.life.Err() == nil
}

var errReleased = errors.New("its client has left")

// session returns the session for the client: shared, or one in the client's era, or
// one of the client's own. The generation is that of shared.
func (p *pool) session(ctx, generation context.Context, shared *instance, from session.Client) (session.Session, error) {
	if from == nil {
		return shared, nil
	}
	var of use
	if variant := variantOf(from, p.opener.name); variant != nil {
		of.variant = variant.key()
		own, err := p.ofClient(ctx, shared, from.Home(), of, terms{
			generation: generation, entry: &variant.Entry, capabilities: allCapabilities, era: peer.UnknownEra, reason: variant.Reason,
		})
		if err != nil {
			return nil, err
		}
		shared = own
	}
	return within(ctx, generation, p, shared, of, from)
}

// within returns the session for the client next to one that it may use with others, or that one.
func within(ctx, generation context.Context, p *pool, shared *instance, of use, from session.Client) (session.Session, error) {
	in := shared
	if shared.otherEra.Load() && shared.Modern() != from.Modern() && (shared.Modern() || from.Home() != nil) {
		// Such a server may serve legacy clients in another way than modern ones, or not at all.
		// A modern client that has no home, such as a command, uses the shared one.
		on := terms{generation: generation, capabilities: allCapabilities, era: peer.LegacyEra, users: "clients of older revisions", reason: "the server also speaks older revisions"}
		if from.Modern() {
			on.era, on.users, on.reason = peer.ModernEra, "clients of newer revisions", "the server also speaks newer revisions"
		}
		other, err := p.ofClient(ctx, shared, from.Home(), use{user: of.user, variant: of.variant, otherEra: true}, on)
		switch {
		case err == nil:
			in = other
		case !from.Modern() || ctx.Err() != nil || isRenewed(err):
			return nil, err
		default: // it speaks older revisions only, or can't run twice
			shared.otherEra.Store(false)
		}
	}
	if in.Modern() {
		return in, nil
	}
	asked := p.opener.asks(in, from.Capabilities())
	if len(asked) == 0 {
		return in, nil
	}
	home := from.Home()
	if home == nil {
		return &perCallSession{in, p, generation}, nil
	}
	of.home = home
	return p.ofClient(ctx, in, home, of, terms{
		generation: generation, capabilities: home.Capabilities(), owner: home, era: peer.LegacyEra, reason: "the server asks for " + strings.Join(asked, " and "),
	})
}

// asks returns the things that the server has asked for, of a client with these capabilities.
func (o *opener) asks(in *instance, capabilities json.RawMessage) []string {
	known := o.launcher.Cache.ByHash(in.hash)
	asked := known.AskedOf(capabilities)
	if in.entry().Roots != nil { // the client is not asked for its own
		asked = slices.DeleteFunc(asked, func(what string) bool { return what == "roots" })
	}
	return asked
}

// ofClient returns the session of the use for a client with this home, and opens it next to shared if there is none. If the
// generation ended meanwhile, the error is the cause.
func (p *pool) ofClient(ctx context.Context, shared *instance, home session.Client, of use, on terms) (*instance, error) {
	p.mu.Lock()
	c := p.byUse[of]
	if c != nil && signal.IsClosed(c.ready) && !c.rests() && (c.err != nil || !c.in.Usable()) {
		c = nil
	}
	if c == nil {
		if hasRoom(p, of) {
			c = p.begin(shared, of, on)
		}
		if c == nil {
			p.mu.Unlock()
			return nil, p.opener.unavailable(status.Stopping, fmt.Sprintf("%d clients, or %d of one user, have a session of their own with it, or it is ending", maxClients, maxOfUser))
		}
	}
	if of.variant != "" && of.user == "" {
		c.homes[home] = true
	}
	p.mu.Unlock()
	if !signal.IsClosed(c.ready) { // so that ctx.Done is called by those that wait only
		select {
		case <-c.ready:
		case <-ctx.Done():
			return nil, p.opener.unavailable(status.Starting, "the client's own session with it is being opened")
		}
	}
	if c.err != nil {
		if why := context.Cause(c.life); isRenewed(why) {
			return nil, why
		}
		return nil, p.opener.failed(c.err)
	}
	return c.in, nil
}

// isRenewed reports whether a session could not be opened because another generation began
// meanwhile, in which it can be.
func isRenewed(err error) bool {
	return errors.Is(err, errEdited) || errors.Is(err, errRestarted) || errors.Is(err, errIdle)
}

// begin opens a session of the use next to shared, and keeps it until its life ends. It returns nil if the life of the server has
// ended. p.mu must be held.
func (p *pool) begin(shared *instance, of use, on terms) *clientSession {
	if shared != nil && shared.user != nil {
		on.user = shared.user
	}
	life, end := context.WithCancelCause(on.user.within(on.generation))
	if on.user != nil && shared == nil {
		on.user.life = life
		on.user.secrets = p.opener.resolver.Server(&resolve.User{Principal: on.user.principal, Claims: on.user.claims}, p.opener.options.OnSecrets)
	}
	c := &clientSession{
		of: of, on: on, life: life, end: end, ready: make(chan struct{}),
		homes: make(map[session.Client]bool), subscribed: make(map[string]func()),
	}
	if !p.opener.running.Go(func() { p.serveClient(c, shared) }) {
		end(nil)
		return nil
	}
	p.byUse[of] = c
	return c
}

// eraForAll returns the era that the shared session is to have if its server needs no certain one: not the era
// of other, the session for all clients of an era, and if other is nil, the era of all clients. legacy
// is [Options.Legacy].
func eraForAll(legacy func() bool, other *instance) peer.Era {
	if other == nil && legacy != nil && legacy() || other != nil && other.Modern() {
		return peer.LegacyEra
	}
	return peer.UnknownEra
}

// serveClient opens a session next to shared, and keeps it until its life or the session ends.
func (p *pool) serveClient(c *clientSession, shared *instance) {
	defer c.end(nil)
	c.in, c.err = p.opener.openNext(c.life, shared, c.on)
	close(c.ready)
	if c.rests() {
		signal.Within(c.life.Done(), exchangeRest)
	} else if c.err == nil {
		if keep(p, c); c.life.Err() != nil {
			if context.Cause(c.life) != errReleased {
				c.in.drain(p.opener.ending)
			}
			c.in.stop(context.Cause(c.life))
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.byUse[c.of] == c {
		delete(p.byUse, c.of)
	}
}

// releaseClient ends the sessions that only this client has used.
func (p *pool) releaseClient(home session.Client) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for of, c := range p.byUse {
		used := c.homes[home]
		delete(c.homes, home)
		if of.home == home || used && len(c.homes) == 0 {
			delete(p.byUse, of)
			c.end(errReleased)
		}
	}
}

// of returns the client's own session; may be nil. Without a client it is the session of the era that the shared one lacks.
func (p *pool) of(home session.Client) *instance {
	p.mu.Lock()
	defer p.mu.Unlock()
	for of, c := range p.byUse {
		if (home != nil && of.home == home || home == nil && of == use{otherEra: true}) && c.opened() {
			return c.in
		}
	}
	return nil
}

// byIdleTime orders open sessions, the one that was used last first.
func byIdleTime(a, b *clientSession) int {
	return cmp.Compare(a.in.Calls.IdleFor(), b.in.Calls.IdleFor())
}

// all returns all sessions of the pool.
func (p *pool) all() (all []*instance) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.byUse.where((*clientSession).opened) {
		all = append(all, c.in)
	}
	return all
}

// sessions returns the sessions of the pool as others see them.
func (p *pool) sessions() (all []status.Session) {
	var homes [][]session.Client // of the sessions, none of one without a certain client
	p.mu.Lock()
	for _, c := range p.byUse.where((*clientSession).opened) {
		clients := slices.Collect(maps.Keys(c.homes))
		if c.of.home != nil {
			clients = []session.Client{c.of.home}
		}
		homes, all = append(homes, clients), append(all, status.Session{PID: c.in.pid(), For: c.on.users, Reason: c.on.reason})
	}
	p.mu.Unlock()
	for i, clients := range homes {
		var names []string
		for _, home := range clients {
			names = append(names, cmp.Or(plain.Line(home.ClientName()), "one client"))
		}
		if slices.Sort(names); len(names) > 0 {
			all[i].For = strings.Join(slices.Compact(names), " and ") + " alone"
		}
	}
	slices.SortFunc(all, func(a, b status.Session) int { return cmp.Or(cmp.Compare(a.PID, b.PID), cmp.Compare(a.For, b.For)) })
	return all
}

// now returns the generation, in which sessions begin.
func (p *pool) now() context.Context {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.generation
}

// renew ends all sessions of the pool, and begins a generation.
func (p *pool) renew(cause error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.endGeneration(cause)
	p.generation, p.endGeneration = context.WithCancelCause(p.life)
}

// renewIfUnused lets no call begin on the pool's sessions and on shared, unless one
// is in use: a client has a session of its own, or a request has acquired one. It reports
// whether that is so: a call either keeps the server or waits for the next session.
func (p *pool) renewIfUnused(shared *instance) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	used := p.byUse.where(func(c *clientSession) bool { return !c.free })
	if len(used) > 0 || len(p.slots) > 0 || !shared.Calls.RefuseUnlessBusy() {
		return false
	}
	p.endGeneration(errIdle)
	p.generation, p.endGeneration = context.WithCancelCause(p.life)
	return true
}

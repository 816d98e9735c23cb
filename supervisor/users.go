package supervisor

import (
	"cmp"
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/oauth"
	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/status"
	"github.com/mcp-metarouter/metarouter/supervisor/internal/resolve"
)

// userIdle is how long a user's session is kept unused if its entry sets no idleTimeout.
const userIdle = 10 * time.Minute

// errOtherLogin ends the sessions of a user who has logged out, or who has another login now.
var errOtherLogin = errors.New("its user has logged out, or in again")

// A user is the principal whose sessions with a server no other principal uses.
type user struct {
	principal string          // "" is the local user
	claims    string          // of its token, as [session.Caller] has them
	exchange  *exchange       // of its token; nil if the entry has none
	secrets   *resolve.Server // resolves the values of its sessions; set with life
	life      context.Context // of its sessions; nil before the first one is opened
	source    source          // of its tokens; nil before, or without logins
	login     string          // as the source named it before the first request
}

// within returns the context in which sessions of the user live; u is nil for sessions of all principals.
func (u *user) within(generation context.Context) context.Context {
	if u == nil || u.life == nil {
		return generation
	}
	return u.life
}

// secretsOf returns who resolves the secrets of a session, and hides them in its texts.
func (o *opener) secretsOf(on terms) *resolve.Server {
	if on.user != nil {
		return on.user.secrets
	}
	return o.secrets
}

// personal returns the session of the client's principal with a server whose users have sessions of their own. The generation is that of
// the entry.
func personal(ctx, generation context.Context, p *pool, entry config.Server, from session.Client) (session.Session, error) {
	who, _ := session.CallerOf(from)
	of := use{user: userKey(who.Principal) + who.Claims}
	if variant := variantOf(from, p.opener.name); variant != nil {
		entry, of.variant = variant.Entry, variant.key()
	}
	exchange, key, err := exchangeFor(ctx, p.opener, entry, who)
	if err != nil {
		return nil, err
	}
	of.user += key
	open := func() (*instance, error) {
		return p.ofClient(ctx, nil, nil, of, terms{
			generation: generation, entry: &entry, capabilities: allCapabilities, users: cmp.Or(who.Name, "the local user") + " alone", reason: "each user has a session of their own",
			user: &user{principal: who.Principal, claims: who.Claims, exchange: exchange},
		})
	}
	in, err := open()
	if err == nil && in.user.isStale(ctx) { // keep ends it a moment later
		dropUser(p, func(other use) bool { return other.user == of.user })
		in, err = open()
	}
	if err != nil {
		return nil, err
	}
	if exchange != nil {
		in.user.exchange.proves.Store(exchange.proves.Load())
	}
	if from == nil {
		return in, nil
	}
	return within(ctx, generation, p, in, of, from)
}

// userKey begins the uses of a principal's sessions.
func userKey(principal string) string { return "user " + principal + "\x00" }

// EndUser ends the sessions of a principal, whose values have changed, with all servers. Calls under way may end.
func (c *clients) EndUser(principal string) {
	for _, s := range c.servers.all() {
		dropUser(s.pool, func(of use) bool { return strings.HasPrefix(of.user, userKey(principal)) })
	}
}

// dropUser has no call begin any more on a user's sessions of these uses, and ends them.
func dropUser(p *pool, these func(use) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for of, c := range p.byUse {
		if these(of) {
			delete(p.byUse, of)
			if of.isFirst() { // the others are in its life
				c.end(errOtherLogin)
			}
		}
	}
}

// isStale reports whether the user has another login than at the first request of these sessions, or none any more.
func (u *user) isStale(ctx context.Context) bool {
	if u.source == nil {
		return false
	}
	now, err := u.source.Login(ctx)
	return err == nil && now != u.login
}

// isFirst reports whether a session of the use is a user's first one, next to which others are opened.
func (of use) isFirst() bool { return of.user != "" && of.home == nil && !of.otherEra }

// unusedIn returns in how long a session that is no client's own will have been unused for its idleTimeout, or a session for requests
// for freeTime: not above 0 if it is to be ended now. p.mu must be held.
func unusedIn(p *pool, c *clientSession) time.Duration {
	limit, needed := freeTime, !c.free
	if c.of.request == 0 {
		if limit = never; c.of.isFirst() {
			limit = userIdle
		}
		limit, needed = cmp.Or(c.in.entry().IdleTimeout, limit), c.of.home != nil || isNeeded(p, c)
	}
	if needed {
		return limit
	}
	return limit - c.in.Calls.IdleFor()
}

// isNeeded reports whether more than calls need a session: another one that is opened next to it, or a subscription. p.mu must be held.
func isNeeded(p *pool, c *clientSession) bool {
	others := p.byUse.where(func(other *clientSession) bool {
		return other.on.user == c.on.user && other.of.variant == c.of.variant && other != c && !other.free && (!c.of.otherEra || other.of.home != nil)
	})
	return len(others) > 0 || len(c.in.Subscriptions.Wanted()) > 0
}

// hasRoom ends an unused session of a user if none of the use fits, and reports whether one does. p.mu must be held.
func hasRoom(p *pool, of use) bool {
	principal, _, _ := strings.Cut(of.user, "\x00")
	mine := principal + "\x00"
	places := p.byUse.where(func(c *clientSession) bool { return strings.HasPrefix(c.of.user, mine) })
	if of.user != "" && mine != userKey("") && len(places) >= maxOfUser {
		return endLeastUsed(p, of, mine)
	}
	all := p.byUse.where(func(c *clientSession) bool { return c.of.request == 0 })
	return len(all) < maxClients || endLeastUsed(p, of, "")
}

// endLeastUsed ends the session that was unused for longest, of the users whose uses begin so, and reports whether one was unused. It
// keeps the one that a session for the use is opened next to. p.mu must be held.
func endLeastUsed(p *pool, keeping use, these string) bool {
	unneeded := p.byUse.where(func(c *clientSession) bool {
		return c.of.isFirst() && c.of.user != keeping.user && strings.HasPrefix(c.of.user, these) && c.opened() && !isNeeded(p, c)
	})
	if len(unneeded) == 0 {
		return false
	}
	c := slices.MaxFunc(unneeded, byIdleTime)
	if !c.in.Calls.RefuseUnlessBusy() {
		return false
	}
	delete(p.byUse, c.of)
	c.end(errUnused)
	return true
}

// keep returns when a client's session is to end, or has ended: with its life, or when it is unused, or its user has another login or
// no valid access token.
func keep(p *pool, c *clientSession) {
	var changed <-chan struct{}
	who := c.on.user
	if c.of.isFirst() && who.source != nil {
		changed = who.source.Changed(c.life)
	}
	var proof <-chan time.Time
	if c.of.isFirst() && who.exchange != nil {
		proof = time.Tick(exchangeCheck)
	}
	unused := time.After(0)
	for {
		select {
		case <-c.life.Done():
			return
		case <-c.in.done:
			return
		case <-changed: // also when its token was refreshed
			if who.isStale(c.life) {
				c.end(errOtherLogin)
				return
			}
			changed = who.source.Changed(c.life)
		case <-proof:
			if !who.exchange.isProven(c.life) && c.in.Calls.RefuseUnlessBusy() {
				c.end(errTokenOver)
				return
			}
		case <-unused:
			p.mu.Lock() // so that no request acquires it meanwhile
			wait := unusedIn(p, c)
			over := wait <= 0 && c.in.Calls.RefuseUnlessBusy()
			p.mu.Unlock()
			if over {
				c.end(errUnused)
				return
			}
			unused = time.After(max(wait, time.Second))
		}
	}
}

// sourceOf returns the source of the tokens of a session: of all principals' login, or of the user's. Lists, which all users see, are
// read with the local user's, and never with another one's.
func (o *opener) sourceOf(ctx context.Context, s oauth.Server, on terms) (source, error) {
	if on.user == nil {
		return o.sources(s), nil
	}
	s.Principal = on.user.principal
	tokens := o.sources(s)
	if on.user.source == nil {
		var err error
		if on.user.login, err = tokens.Login(ctx); err != nil {
			return nil, err
		}
		on.user.source = tokens
	}
	return tokens, nil
}

// attendUsers waits until the lists of a server whose users have sessions of their own are to be read again, or its life goes on
// otherwise. listed is the session from which they were read, which no user gets.
func attendUsers(ctx context.Context, s *server, listed *instance) error {
	entry := listed.entry()
	s.public.set(func(st *status.Status) {
		st.State, st.PID, st.LastError, st.Fault = status.Ready, 0, "", nil
		st.Era, st.ProtocolVersion = listed.Info().Era(), listed.Info().ProtocolVersion
	})
	listed.stop(errUnused)
	s.log.Info("server is ready; each user has a session of their own", zap.String("protocol", listed.Info().ProtocolVersion))
	soonest := time.After(relistMax)
	for {
		switch s.control.await(ctx, nil, s.control.woken, nil) {
		case byRestart:
			return errRestarted
		case byEdit:
			if !reflect.DeepEqual(entry, s.control.wanted()) {
				return errEdited
			}
		case byCall: // a user's session says that a list has changed
			select {
			case <-soonest:
			case <-ctx.Done():
			}
			return errRestarted // at once, though the server may be lazy
		case byEnd:
			return nil
		}
	}
}

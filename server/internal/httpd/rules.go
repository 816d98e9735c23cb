package httpd

import (
	"cmp"
	"context"
	"sync"
	"sync/atomic"

	"github.com/mcp-metarouter/metarouter/internal/rate"
	"github.com/mcp-metarouter/metarouter/server/internal/identity"
)

// rules are the options with their defaults, and the values that follow from them: which clients the handler serves, and how
// much. They are replaced, not modified. Each request is served by the rules of the moment when it came.
type rules struct {
	Options
	of       *Options  // without defaults
	settings *settings // that have replaced them, if others are in force
	access   access
	clients  *identity.Rules          // who is let in
	limiters map[string]*rate.Limiter // of principals with a rate of their own, by Hash
	limiter  *rate.Limiter            // of all others; nil if clients may make any number of requests
}

// newRules returns the rules of the options. A limit on requests that was in before as well
// goes on counting. in are the settings that the rules are for.
func newRules(o *Options, before *rules, in *settings) *rules {
	if before == nil {
		before = new(rules)
	}
	r := &rules{Options: *o, of: o, settings: in, access: newAccess(o), limiter: before.limiter, limiters: make(map[string]*rate.Limiter, len(o.Rates))}
	r.clients = identity.NewRules(o.Tokens, o.Issuers, o.Authenticator, o.PublicURL, before.clients)
	r.MaxBodyMemory = cmp.Or(o.MaxBodyMemory, defaultMaxBodyMemory)
	r.MaxBody = min(cmp.Or(o.MaxBody, defaultMaxBody), r.MaxBodyMemory) // a larger one could never be let in
	r.MaxSessions = cmp.Or(o.MaxSessions, defaultMaxSessions)
	r.SessionTimeout = cmp.Or(o.SessionTimeout, defaultSessionTimeout)
	if before.Rate != o.Rate || before.Burst != o.Burst {
		r.limiter = rate.New(o.Rate, o.Burst)
	}
	for hash, own := range o.Rates {
		if r.limiters[hash] = before.limiters[hash]; before.Rates[hash] != own {
			r.limiters[hash] = rate.New(own.PerSecond, own.Burst)
		}
	}
	return r
}

// settings are the options that are in force, as rules.
type settings struct {
	live   func() (*Options, <-chan struct{})
	revoke func(before, next *rules) // ends the sessions and requests that the next rules do not permit

	rules    atomic.Pointer[rules]
	renewing sync.Mutex // one goroutine at a time replaces rules
}

// current returns the rules of the options that are in force. If the options have changed,
// it ends the requests and sessions of clients with a token that is not valid any more, or says
// something else of them.
func (s *settings) current() *rules {
	o, _ := s.live()
	if now := s.rules.Load(); now != nil && now.of == o {
		return now
	}
	s.renewing.Lock()
	defer s.renewing.Unlock()
	before := s.rules.Load()
	if before != nil && before.of == o {
		return before
	}
	next := newRules(o, before, s)
	if before != nil {
		s.revoke(before, next) // first, so that no request by the next rules finds a login that they do not permit
	}
	s.rules.Store(next)
	return next
}

// watch applies each edit of the options at once, so that a revoked client that sends nothing
// is cut off too.
func (s *settings) watch(ctx context.Context) {
	for {
		_, edited := s.live()
		s.current()
		select {
		case <-edited:
		case <-ctx.Done():
			return
		}
	}
}

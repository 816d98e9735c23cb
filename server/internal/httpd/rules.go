package httpd

import (
	"cmp"
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/rate"
	"github.com/mcp-metarouter/metarouter/server/internal/conversation"
)

// rules are what follows from the options: whom the handler serves, and how much. They are
// replaced, not modified. Each request is served by the rules of the moment when it came.
type rules struct {
	options        *Options
	settings       *settings // that have replaced them, if others are in force
	access         access
	grants         map[Principal]*grant
	issuers        map[string]*issuerGrant  // by URL
	publicURL      string                   // without a slash at the end; "" if it is not known
	prefix         string                   // its path; "" for none
	limiters       map[string]*rate.Limiter // of principals with a rate of their own, by Hash
	limiter        *rate.Limiter            // of all others; nil if clients may make any number of requests
	maxBody        int64                    // bytes
	maxBodyMemory  int64                    // bytes
	maxBatch       int                      // messages
	readTimeout    time.Duration
	maxSessions    int
	sessionTimeout time.Duration
}

// newRules returns the rules of the options. A limit on requests that was in before as well
// goes on counting.
func newRules(o *Options, before *rules) *rules {
	r := &rules{
		options: o, access: newAccess(*o), limiter: rate.New(o.Rate, o.Burst),
		maxBody:        cmp.Or(o.MaxBody, defaultMaxBody),
		maxBodyMemory:  cmp.Or(o.MaxBodyMemory, defaultMaxBodyMemory),
		maxBatch:       cmp.Or(o.MaxBatch, conversation.MaxBatch),
		readTimeout:    cmp.Or(o.ReadTimeout, defaultReadTimeout),
		maxSessions:    cmp.Or(o.MaxSessions, defaultMaxSessions),
		sessionTimeout: cmp.Or(o.SessionTimeout, defaultSessionTimeout),
	}
	r.publicURL = strings.TrimRight(o.PublicURL, "/")
	r.prefix = prefixOf(r.publicURL)
	last := before
	if last == nil {
		last = new(rules)
	}
	r.grants = newGrants(o.Tokens, r.access.public, last.grants)
	r.issuers = newIssuerGrants(o.Issuers, last.issuers)
	r.maxBody = min(r.maxBody, r.maxBodyMemory) // a larger one could never be let in
	if before != nil && before.options.Rate == o.Rate && before.options.Burst == o.Burst {
		r.limiter = before.limiter
	}
	r.limiters = make(map[string]*rate.Limiter, len(o.Rates))
	for hash, own := range o.Rates {
		if before != nil && before.limiters[hash] != nil && before.options.Rates[hash] == own {
			r.limiters[hash] = before.limiters[hash]
		} else if l := rate.New(own.PerSecond, own.Burst); l != nil {
			r.limiters[hash] = l
		}
	}
	return r
}

// limiterOf returns the limiter of a principal that was let in; nil if it may make any number of
// requests.
func (r *rules) limiterOf(who Principal) *rate.Limiter {
	if own := r.limiters[who.Hash]; own != nil {
		return own
	}
	return r.limiter
}

// settings are the options that are in force, as rules.
type settings struct {
	live   func() (*Options, <-chan struct{})
	revoke func(before, next *rules) // ends what the next rules do not permit

	rules    atomic.Pointer[rules]
	renewing sync.Mutex // one goroutine at a time replaces rules
}

func newSettings(o Options, revoke func(before, next *rules)) *settings {
	live := o.Live
	if live == nil {
		live = func() (*Options, <-chan struct{}) { return &o, nil }
	}
	return &settings{live: live, revoke: revoke}
}

// current returns the rules of the options that are in force. If the options have changed,
// it ends the requests and sessions of clients whose token is not valid any more, or says
// something else of them.
func (s *settings) current() *rules {
	o, _ := s.live()
	if now := s.rules.Load(); now != nil && now.options == o {
		return now
	}
	s.renewing.Lock()
	defer s.renewing.Unlock()
	before := s.rules.Load()
	if before != nil && before.options == o {
		return before
	}
	next := newRules(o, before)
	next.settings = s
	s.rules.Store(next)
	if before != nil {
		s.revoke(before, next)
	}
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

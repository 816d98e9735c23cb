package httpd

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"time"

	"github.com/mcp-metarouter/metarouter/server/internal/conversation"
)

// rules are what follows from the options: whom the handler serves, and how much. They are
// replaced, not modified. Each request is served by the rules of the moment when it came.
type rules struct {
	options        *Options
	access         access
	limiter        *limiter // nil if clients may make any number of requests
	maxBody        int64    // bytes
	maxBodyMemory  int64    // bytes
	maxBatch       int      // messages
	readTimeout    time.Duration
	maxSessions    int
	sessionTimeout time.Duration
}

// newRules returns the rules of the options. A limit on requests that was in before as well
// goes on counting.
func newRules(o *Options, before *rules) *rules {
	r := &rules{
		options: o, access: newAccess(*o), limiter: newLimiter(o.Rate, o.Burst),
		maxBody:        cmp.Or(o.MaxBody, defaultMaxBody),
		maxBodyMemory:  cmp.Or(o.MaxBodyMemory, defaultMaxBodyMemory),
		maxBatch:       cmp.Or(o.MaxBatch, conversation.MaxBatch),
		readTimeout:    cmp.Or(o.ReadTimeout, defaultReadTimeout),
		maxSessions:    cmp.Or(o.MaxSessions, defaultMaxSessions),
		sessionTimeout: cmp.Or(o.SessionTimeout, defaultSessionTimeout),
	}
	r.maxBody = min(r.maxBody, r.maxBodyMemory) // a larger one could never be let in
	if before != nil && before.options.Rate == o.Rate && before.options.Burst == o.Burst {
		r.limiter = before.limiter
	}
	if r.limiter != nil { // a larger batch could never be let in
		r.maxBatch = min(r.maxBatch, r.limiter.burst)
	}
	return r
}

// public reports whether requests need no token.
func (r *rules) public() bool { return len(r.access.tokens) == 0 }

// knows reports whether the principal may send requests.
func (r *rules) knows(principal string) bool {
	if r.public() {
		return principal == ""
	}
	return slices.ContainsFunc(r.access.tokens, func(token [sha256.Size]byte) bool { return hex.EncodeToString(token[:]) == principal })
}

// current returns the rules of the options that are in force. If the options have changed,
// it ends the sessions of clients whose token is not valid any more.
func (h *Handler) current() *rules {
	o := h.live()
	if now := h.rules.Load(); now != nil && now.options == o {
		return now
	}
	h.renewing.Lock()
	defer h.renewing.Unlock()
	before := h.rules.Load()
	if before != nil && before.options == o {
		return before
	}
	next := newRules(o, before)
	h.rules.Store(next)
	if before != nil {
		h.sessions.removeUnknown(next)
	}
	return next
}

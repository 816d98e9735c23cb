package httpd

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/mcp-metarouter/metarouter/server/internal/conversation"
)

// errRevoked is why requests end whose token was removed, or now has another name, profile or
// role.
var errRevoked = conversation.InvalidRequest("the token of this request was removed or changed while the request was served; send Authorization: Bearer TOKEN with a valid one")

// A grant is the right of a principal to send requests. It ends for good when an edit removes or
// changes the token; the same token in a later edit is another grant.
type grant struct {
	Principal
	issuer string          // whose token has proved the principal; "" for a token of the options
	since  time.Time       // logins that began before are not valid; in whole seconds, as those
	ctx    context.Context // ends with the grant, with the cause errRevoked
	revoke context.CancelCauseFunc
}

// identity returns the principal as conversations know it.
func (g *grant) identity() conversation.Identity {
	return conversation.Identity{Principal: g.Hash, PrincipalName: g.Name, Admin: g.Admin, Issuer: g.issuer}
}

// newGrants returns the grants of the principals, and of anyone if requests need no token. Those
// that were there before go on.
func newGrants(known []Principal, public bool, before map[Principal]*grant) map[Principal]*grant {
	if public {
		known = []Principal{anyone}
	}
	grants := make(map[Principal]*grant, len(known))
	for _, who := range known {
		if g := before[who]; g != nil {
			grants[who] = g
			continue
		}
		g := &grant{Principal: who, since: time.Now().Truncate(time.Second)}
		g.ctx, g.revoke = context.WithCancelCause(context.Background())
		grants[who] = g
	}
	return grants
}

// revokeMissing ends the grants of before that next has not, with the suspended requests of
// their principals. Sessions and requests follow their grant.
func (h *Handler) revokeMissing(before, next *rules) {
	for who, g := range before.grants {
		if next.grants[who] != g {
			g.revoke(errRevoked)
			h.abandon(func(of conversation.Identity) bool { return of.Issuer == "" && of.Principal == who.Hash })
		}
	}
	for url, g := range before.issuers {
		if next.issuers[url] != g {
			g.revoke(errRevoked)
			h.abandon(func(of conversation.Identity) bool { return of.Issuer == url })
		}
	}
}

// abandon gives up the suspended requests of these clients without a session.
func (h *Handler) abandon(those func(conversation.Identity) bool) {
	for _, b := range h.backends.All() {
		b.Clients.AbandonVisitorsOf(those)
	}
}

// watch applies each edit of the options at once, so that a revoked client that sends nothing
// is cut off too.
func (h *Handler) watch() {
	for {
		_, edited := h.live()
		h.current()
		select {
		case <-edited:
		case <-h.work.ctx.Done():
			return
		}
	}
}

// A span is the time in which a request is served after its client was let in.
type span struct {
	mu     sync.Mutex // guards what follows
	over   bool
	cause  error           // why it is over
	ctx    context.Context // ends with the span; nil until it is needed
	cancel context.CancelCauseFunc
	stop   func() bool // lets go of the grant
}

// context returns the context of the request, which ends when the client leaves, and with the grant
// once the client was let in. It is made when it is first needed: most requests are answered without.
func (x *exchange) context() context.Context {
	if x.grant == nil {
		return x.r.Context()
	}
	s := &x.span
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx == nil {
		ctx, cancel := context.WithCancelCause(x.r.Context())
		s.ctx, s.cancel, s.stop = ctx, cancel, context.AfterFunc(x.grant.ctx, func() { cancel(errRevoked) })
		if s.over {
			s.stop()
			cancel(s.cause)
		}
	}
	return s.ctx
}

// ended reports whether the context of the request has ended.
func (x *exchange) ended() bool {
	x.span.mu.Lock()
	over := x.span.over
	x.span.mu.Unlock()
	return over || x.r.Context().Err() != nil || x.grant != nil && x.grant.ctx.Err() != nil
}

// end ends the context of the request.
func (x *exchange) end(cause error) {
	s := &x.span
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over, s.cause = true, cause
	if s.cancel != nil {
		s.stop()
		s.cancel(cause)
	}
}

// revoked reports whether the client may not be served any more, by the options that are in
// force now.
func (x *exchange) revoked() bool {
	if x.current != nil {
		x.current()
	}
	return x.grant != nil && x.grant.ctx.Err() != nil
}

// refuseRevoked answers a request whose grant has ended.
func (x *exchange) refuseRevoked() {
	x.why = "the token was removed or changed while the request was served"
	x.challenge("invalid_token", errRevoked.Error(), x.scopesToAsk())
	x.refuse(http.StatusUnauthorized, nil, errRevoked)
}

package httpd

import (
	"context"
	"net/http"

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
		g := &grant{Principal: who}
		g.ctx, g.revoke = context.WithCancelCause(context.Background())
		grants[who] = g
	}
	return grants
}

// revoke ends the grants of before that next has not, with the suspended requests of their
// principals, and the logins of browsers. Sessions and requests follow their grant.
func (h *Handler) revoke(before, next *rules) {
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
	h.login.sessions.edited(next)
}

// abandon gives up the suspended requests of these clients without a session.
func (h *Handler) abandon(those func(conversation.Identity) bool) {
	for _, b := range h.backends.All() {
		b.Clients.AbandonVisitorsOf(those)
	}
}

// refuseRevoked answers a request whose grant has ended.
func refuseRevoked(w http.ResponseWriter, r *http.Request) {
	q := requestOf(r)
	challenge(w, r, "invalid_token", errRevoked.Error(), q.scopesToAsk())
	refuseFor("the token was removed or changed while the request was served", w, r, http.StatusUnauthorized, errRevoked)
}

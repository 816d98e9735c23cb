package identity

import (
	"context"
	"slices"

	"github.com/mcp-metarouter/metarouter/internal/clientauth"
	"github.com/mcp-metarouter/metarouter/server/internal/conversation"
)

// ErrRevoked is why requests end when their token was removed, or now has another name, profile or
// role.
var ErrRevoked = conversation.InvalidRequest("the token of this request was removed or changed while the request was served; send Authorization: Bearer TOKEN with a valid one")

// A right ends for good when an edit takes it away, with the cause [ErrRevoked]; the same right in a later
// edit is another one.
type right struct {
	Context context.Context // ends with the right
	revoke  context.CancelCauseFunc
}

func newRight(within context.Context) (r right) {
	r.Context, r.revoke = context.WithCancelCause(within)
	return r
}

// A Grant is the right of a principal to send requests. It ends when an edit removes or changes the token.
type Grant struct {
	clientauth.Principal
	right
	issuer string // of the token that has proved the principal; "" for a token of the options
}

// Identity returns the principal as conversations know it.
func (g *Grant) Identity() conversation.Identity {
	return conversation.Identity{Principal: g.Hash, PrincipalName: g.Name, Admin: g.Admin, Issuer: g.issuer}
}

// newGrants returns the grants of the principals, and of anyone if requests need no token. Those
// that were there before go on.
func newGrants(known []clientauth.Principal, public bool, before map[clientauth.Principal]*Grant) map[clientauth.Principal]*Grant {
	if public {
		known = []clientauth.Principal{anyone}
	}
	grants := make(map[clientauth.Principal]*Grant, len(known))
	for _, who := range known {
		if grants[who] = before[who]; grants[who] == nil {
			grants[who] = &Grant{Principal: who, right: newRight(context.Background())}
		}
	}
	return grants
}

// An issuerGrant is the right of all principals that an issuer lets in. It ends when an edit removes the
// issuer or changes its configuration.
type issuerGrant struct {
	clientauth.Issuer
	right
}

// newIssuerGrants returns the grants of the issuers, by URL. Those that were there before go on.
// An issuer without a URL stands for a mistake, and lets no client in.
func newIssuerGrants(issuers []clientauth.Issuer, before map[string]*issuerGrant) map[string]*issuerGrant {
	grants := make(map[string]*issuerGrant, len(issuers))
	for _, i := range issuers {
		if i.URL == "" || grants[i.URL] != nil {
			continue
		}
		if grants[i.URL] = before[i.URL]; !grants[i.URL].same(i) {
			grants[i.URL] = &issuerGrant{i, newRight(context.Background())}
		}
	}
	return grants
}

func (g *issuerGrant) same(i clientauth.Issuer) bool {
	return g != nil && g.Revision == i.Revision && slices.Equal(g.Read, i.Read) && slices.Equal(g.Call, i.Call) && slices.Equal(g.Admin, i.Admin)
}

// grantOf returns the grant of the principal that was proved. It reports false if the token was
// judged by other rules than these.
func (r *Rules) grantOf(p clientauth.Proof) (*Grant, bool) {
	i := r.issuers[p.Issuer]
	if i == nil || i.Revision != p.Revision || p.Principal.Hash == "" {
		return nil, false
	}
	return &Grant{Principal: p.Principal, issuer: i.URL, right: i.right}, true
}

// works returns the issuers without mistakes, the one first that clients need a token of; nil if the
// router does not know its public URL.
func (r *Rules) works() (all []clientauth.Issuer) {
	for _, i := range r.listed {
		if i.URL != "" && r.PublicURL != "" {
			all = append(all, i)
		}
	}
	return all
}

// HasIssuers reports whether issuers let clients in, so that there are metadata for them.
func (r *Rules) HasIssuers() bool { return len(r.works()) > 0 }

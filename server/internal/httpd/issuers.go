package httpd

import (
	"context"
	"slices"
)

// An issuerGrant is the right of all principals that an issuer lets in. It ends for good when an
// edit removes the issuer or changes what the configuration says of it.
type issuerGrant struct {
	Issuer
	ctx    context.Context // ends with the grant, with the cause errRevoked
	revoke context.CancelCauseFunc
}

// newIssuerGrants returns the grants of the issuers, by URL. Those that were there before go on.
// An issuer without a URL stands for a mistake, and lets no one in.
func newIssuerGrants(issuers []Issuer, before map[string]*issuerGrant) map[string]*issuerGrant {
	grants := make(map[string]*issuerGrant, len(issuers))
	for _, i := range issuers {
		if i.URL == "" || grants[i.URL] != nil {
			continue
		}
		if g := before[i.URL]; g != nil && g.same(i) {
			grants[i.URL] = g
			continue
		}
		g := &issuerGrant{Issuer: i}
		g.ctx, g.revoke = context.WithCancelCause(context.Background())
		grants[i.URL] = g
	}
	return grants
}

func (g *issuerGrant) same(i Issuer) bool {
	return g.Revision == i.Revision && slices.Equal(g.Read, i.Read) && slices.Equal(g.Call, i.Call) && slices.Equal(g.Admin, i.Admin)
}

// grantOf returns the grant of the principal that was proved. It reports false if the token was
// judged by other rules than these.
func (r *rules) grantOf(p Proof) (*grant, bool) {
	i := r.issuers[p.Issuer]
	if i == nil || i.Revision != p.Revision || p.Principal.Hash == "" {
		return nil, false
	}
	return &grant{Principal: p.Principal, issuer: i.URL, ctx: i.ctx}, true
}

// issuer returns the first issuer, whose tokens clients are asked for. It reports false if there
// is none that works.
func (r *rules) issuer() (i Issuer, ok bool) {
	if r.publicURL == "" {
		return Issuer{}, false
	}
	for _, i := range r.options.Issuers {
		if i.URL != "" {
			return i, true
		}
	}
	return Issuer{}, false
}

package oauth

import (
	"context"
	"errors"
	"fmt"
	"net/url"
)

// Revoke has the issuer forget the token (RFC 7009): the refresh token first, from which others
// follow, and then the access token. It returns nil if the issuer has no way to revoke. An issuer
// that revokes only one kind makes an error with the code unsupported_token_type.
func (g *Grantor) Revoke(ctx context.Context, t Token) error {
	if g.Issuer.RevocationEndpoint == "" {
		return nil
	}
	var failed []error
	for _, one := range []struct{ kind, token string }{{"refresh_token", t.Refresh}, {"access_token", t.Access}} {
		if one.token == "" {
			continue
		}
		form := url.Values{"token": {one.token}, "token_type_hint": {one.kind}}
		// A client ignores the body of a success (RFC 7009, section 2.2).
		if _, err := g.form(ctx, "revocation", g.Issuer.RevocationEndpoint, form); err != nil && !errors.Is(err, errNoObject) {
			failed = append(failed, fmt.Errorf("revoke the %s: %w", one.kind, err))
		}
	}
	return errors.Join(failed...)
}

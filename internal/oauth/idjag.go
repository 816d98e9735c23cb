package oauth

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
)

const (
	tokenType = "urn:ietf:params:oauth:token-type:"
	idJAG     = tokenType + "id-jag"
)

// byGrant gets an ID-JAG (draft-ietf-oauth-identity-assertion-authz-grant) at the issuer of g with the form, and redeems it at the server's
// issuer (RFC 7523). The SDK's extauth would follow redirects, read answers of any length, and ask any address.
func (e Exchange) byGrant(ctx context.Context, g *Grantor, form url.Values) (Token, error) {
	s, err := e.Server(ctx)
	if err != nil {
		return Token{}, err
	}
	s.Settings.Grant = ClientCredentials // no person logs in
	c := NewHTTPClient(s)
	found, err := Discover(ctx, c, s, Challenge{})
	switch {
	case err != nil:
		return Token{}, fmt.Errorf("find the server's issuer: %w", err)
	case found.Issuer.TokenEndpoint == "":
		return Token{}, errors.New("the server names no issuer that can redeem an ID-JAG")
	}
	g.Resource = cmp.Or(e.Resource, found.Resource)
	form.Set("audience", cmp.Or(e.Audience, found.Issuer.ID))
	form.Set("requested_token_type", idJAG)
	form.Set("subject_token_type", kindOf(e.Subject))
	r, err := g.form(ctx, "token", g.Issuer.TokenEndpoint, g.asking(form, e.Scopes))
	if err != nil {
		return Token{}, err
	}
	grant, kind := r.text("access_token"), r.text("issued_token_type")
	if kind != idJAG || grant == "" || !isVisible(grant, '!') {
		return Token{}, fmt.Errorf(`it issues no ID-JAG, but a token of the type %q; an administrator must take "type" out of "exchange", or permit ID-JAGs there`, shorten(kind, 64))
	}
	if e.Permit != nil { // it is the server that names the issuer
		if err := e.Permit(ctx, s, found.Issuer.ID); err != nil {
			return Token{}, err
		}
	}
	own := &Grantor{HTTP: c, Issuer: found.Issuer, Settings: s.Settings, Client: settledClient(s.Settings, found.Issuer, Redirect{})}
	t, err := own.token(ctx, url.Values{"grant_type": {"urn:ietf:params:oauth:grant-type:jwt-bearer"}, "assertion": {grant}}, e.Scopes)
	if err != nil { // no refusal of the user's issuer
		err = fmt.Errorf(`redeem its ID-JAG at %s: %v; an administrator must correct "oauth" in the server's entry, or have that issuer trust this one`, shown(found.Issuer.ID), err)
	}
	return t, err
}

// kindOf returns the type of a user's token: an ID token is a JWT that names neither scopes nor a client (RFC 9068, section 2.2).
func kindOf(token string) string {
	_, rest, _ := strings.Cut(token, ".")
	payload, _, _ := strings.Cut(rest, ".")
	raw, _ := base64.RawURLEncoding.DecodeString(payload)
	var claims reply
	if json.Unmarshal(raw, &claims) != nil || claims["scope"] != nil || claims["scp"] != nil || claims["client_id"] != nil {
		return tokenType + "access_token"
	}
	return tokenType + "id_token"
}

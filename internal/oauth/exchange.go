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

	"github.com/modelcontextprotocol/go-sdk/oauthex"
)

const accessTokenType = "urn:ietf:params:oauth:token-type:access_token"

// An Exchange gets a token in exchange for a user's (RFC 8693). Audience, Resource and Scopes say for what; "" and nil leave them out.
type Exchange struct {
	Issuer                 string // that has issued the user's token and issues the other one; configured, so that it may have any address
	ClientID, ClientSecret string // of the router at the issuer
	Subject                string // the user's token

	Audience, Resource string
	Scopes             []string

	Server func(context.Context) (Server, error)                     // whose issuer redeems an ID-JAG, for the client of its settings; nil: Issuer gives the token
	Permit func(ctx context.Context, at Server, issuer string) error // says why that client is not shown to the server's issuer; may be nil
}

// Token asks the issuer for the token. Its errors have neither token nor secret, and say who can do what after a refusal.
func (e Exchange) Token(ctx context.Context) (Token, error) {
	if e.ClientID == "" {
		return Token{}, errors.New(`the router has no client there; an administrator must set "clientId" and "clientSecret" of this issuer in "http", "oauth"`)
	}
	c := NewHTTPClient(Server{URL: e.Issuer})
	i, err := Describe(ctx, c, e.Issuer)
	if err != nil {
		return Token{}, err
	}
	g := &Grantor{HTTP: c, Issuer: *i, Resource: e.Resource, Client: settledClient(Settings{ClientID: e.ClientID, ClientSecret: e.ClientSecret}, *i, Redirect{})}
	form := url.Values{
		"grant_type":         {oauthex.GrantTypeTokenExchange},
		"subject_token":      {e.Subject},
		"subject_token_type": {accessTokenType},
	}
	if e.Audience != "" {
		form.Set("audience", e.Audience)
	}
	var t Token
	if e.Server != nil {
		t, err = e.byGrant(ctx, g, form)
	} else {
		t, err = g.token(ctx, g.asking(form, e.Scopes), e.Scopes)
	}
	if err == nil {
		return t, nil
	}
	refusal, refused := errors.AsType[*Refusal](err)
	if !refused {
		return Token{}, err
	}
	todo := `an administrator must correct "exchange" in the server's entry, or "clientId" and "clientSecret" of this issuer, and permit this client token exchange there`
	switch refusal.Code {
	case "invalid_grant", "invalid_request", "access_denied": // of the user; Keycloak answers invalid_request to much else, too
		todo = `log in to the issuer again, so that your client has a new access token, or ask there for the right to use this server; if that does not help, an administrator must permit the router's client this exchange there, and add the router's "clientId" to the audience of your tokens`
	}
	return Token{}, fmt.Errorf("it refuses with %s %q; %s", refusal.Code, refusal.Description, todo)
}

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
	form.Set("requested_token_type", oauthex.TokenTypeIDJAG)
	form.Set("subject_token_type", kindOf(e.Subject))
	r, err := g.form(ctx, "token", g.Issuer.TokenEndpoint, g.asking(form, e.Scopes))
	if err != nil {
		return Token{}, err
	}
	grant, kind := r.text("access_token"), r.text("issued_token_type")
	if kind != oauthex.TokenTypeIDJAG || grant == "" || !isVisible(grant, '!') {
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
		return accessTokenType
	}
	return oauthex.TokenTypeIDToken
}

// Format prints the exchange for all verbs without its secrets.
func (e Exchange) Format(s fmt.State, _ rune) { fmt.Fprintf(s, "exchange at %q", e.Issuer) }

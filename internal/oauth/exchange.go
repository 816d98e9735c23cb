package oauth

import (
	"context"
	"errors"
	"fmt"
	"net/url"
)

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
		"grant_type":         {"urn:ietf:params:oauth:grant-type:token-exchange"},
		"subject_token":      {e.Subject},
		"subject_token_type": {tokenType + "access_token"},
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

// Format prints the exchange for all verbs without its secrets.
func (e Exchange) Format(s fmt.State, _ rune) { fmt.Fprintf(s, "exchange at %q", e.Issuer) }

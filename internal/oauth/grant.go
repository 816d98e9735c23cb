package oauth

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/oauth2"

	"github.com/mcp-metarouter/metarouter/internal/lazy"
)

// A Grantor asks an issuer for tokens. Each of its requests goes to the issuer only: a redirect is
// an error. Its errors and its Format have no token, code, verifier, secret or key.
type Grantor struct {
	HTTP     *http.Client
	Issuer   Issuer
	Client   Client
	Settings Settings // for the client's key
	Resource string   // the resource parameter; "" leaves it out
}

// offlineAccess is the scope that OpenID issuers want to hear before they grant a refresh token.
const offlineAccess = "offline_access"

// ScopesToAsk returns the scopes to ask for: from the settings, which are all that the router
// may have, else from the challenge, else from the server's metadata. The last two get all
// of before: scopes that were granted or are known to be needed. It adds offline_access if the
// issuer lists it and a person logs in. With nil the issuer chooses.
func ScopesToAsk(s Settings, found *Found, challenge Challenge, before []string) []string {
	all := s.Scopes
	if all == nil {
		all = challenge.Scopes
		if len(all) == 0 && found != nil {
			all = found.Scopes
		}
		all = Union(all, before)
	}
	all = Union(nil, all)
	if found != nil && s.Grant != ClientCredentials && slices.Contains(found.Issuer.Scopes, offlineAccess) {
		all = Union(all, []string{offlineAccess})
	}
	return all
}

// AuthorizationURL returns the URL at which a person logs in, or "" if the issuer's endpoint is not
// a URL with https (or http on this machine). verifier is for PKCE. An OpenID issuer grants
// offline_access only if it asks the person, so that prompt=consent goes with that scope.
func (g *Grantor) AuthorizationURL(state, verifier, redirectURI string, scopes []string) string {
	if checkEndpoint("authorization", g.Issuer.AuthorizationEndpoint) != nil {
		return ""
	}
	// An endpoint has no fragment (RFC 6749, section 3.1): behind one, no parameter would be sent.
	endpoint, _, _ := strings.Cut(g.Issuer.AuthorizationEndpoint, "#")
	config := oauth2.Config{
		ClientID:    g.Client.ID,
		Endpoint:    oauth2.Endpoint{AuthURL: endpoint},
		RedirectURL: redirectURI,
		Scopes:      scopes,
	}
	options := []oauth2.AuthCodeOption{oauth2.S256ChallengeOption(verifier)}
	if g.Resource != "" {
		options = append(options, oauth2.SetAuthURLParam("resource", g.Resource))
	}
	if slices.Contains(scopes, offlineAccess) {
		options = append(options, oauth2.SetAuthURLParam("prompt", "consent"))
	}
	return forbidden().ReplaceAllStringFunc(config.AuthCodeURL(state, options...), url.PathEscape)
}

// forbidden matches a character that no URL may have (RFC 3986): quotes for shells and for programs that open
// browsers.
var forbidden = lazy.Regexp("[^!-~]|[\"<>\\\\^`{|}]")

// CheckResponse checks an authorization response (the query of the redirect) except for its
// state, and returns its code. The error is a [*Refusal] if the issuer sent one, else names
// the fault, such as the iss of another issuer.
//
// An iss must equal the issuer's identifier in each byte, advertised or not (RFC 9207, section
// 2.4). It is checked before an error is believed, since another issuer may have sent that.
func (g *Grantor) CheckResponse(q url.Values) (code string, err error) {
	for _, name := range []string{"code", "state", "iss", "error", "error_description"} {
		if len(q[name]) > 1 {
			return "", fmt.Errorf("the response to the login has %q %d times: it is not used", name, len(q[name]))
		}
	}
	switch iss := q.Get("iss"); {
	case q.Has("iss") && iss != g.Issuer.ID:
		return "", fmt.Errorf("the response to the login is from another issuer (iss %q) than the one that was asked (%q): it is not used", oneLine(iss), oneLine(g.Issuer.ID))
	case !q.Has("iss") && g.Issuer.SendsIssuer:
		return "", fmt.Errorf("the response to the login does not say who sent it (no iss), although the issuer %q promises it: it is not used", oneLine(g.Issuer.ID))
	}
	if q.Has("error") {
		return "", newRefusal(q.Get("error"), q.Get("error_description"), 0, nil)
	}
	if code = q.Get("code"); code == "" || len(code) > maxToken {
		return "", fmt.Errorf("the response to the login has neither a code nor an error, or a code of more than %d bytes", maxToken)
	}
	return code, nil
}

// Exchange redeems an authorization code.
func (g *Grantor) Exchange(ctx context.Context, code, verifier, redirectURI string, scopes []string) (Token, error) {
	return g.token(ctx, url.Values{
		"grant_type":    {"authorization_code"},
		"code":          {code},
		"code_verifier": {verifier},
		"redirect_uri":  {redirectURI},
	}, scopes)
}

// Refresh redeems the refresh token of t, which has one. The new token has the old refresh token and the old
// scopes if the issuer sends no others.
func (g *Grantor) Refresh(ctx context.Context, t Token) (Token, error) {
	fresh, err := g.token(ctx, url.Values{"grant_type": {"refresh_token"}, "refresh_token": {t.Refresh}}, t.Scopes)
	if err == nil && fresh.Refresh == "" {
		fresh.Refresh = t.Refresh
	}
	return fresh, err
}

// ClientCredentials gets a token without a person.
func (g *Grantor) ClientCredentials(ctx context.Context, scopes []string) (Token, error) {
	return g.token(ctx, g.asking(url.Values{"grant_type": {"client_credentials"}}, scopes), scopes)
}

// asking returns the form with the scopes to ask for, and the resource.
func (g *Grantor) asking(form url.Values, scopes []string) url.Values {
	if len(scopes) > 0 {
		form.Set("scope", strings.Join(scopes, " "))
	}
	if g.Resource != "" {
		form.Set("resource", g.Resource)
	}
	return form
}

// Revoke has the issuer forget the token (RFC 7009): the refresh token first, from which others
// follow, and then the access token. It returns nil if the issuer has no way to revoke, or says that a token is not valid any more. An
// issuer that revokes only one kind makes an error with the code unsupported_token_type.
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
		_, err := g.form(ctx, "revocation", g.Issuer.RevocationEndpoint, form)
		refusal, refused := errors.AsType[*Refusal](err)
		switch {
		case err == nil, errors.Is(err, errNoObject): // a client ignores the body of a success (RFC 7009, section 2.2)
		case refused && refusal.Code == "invalid_token": // as Keycloak answers if the access token has ended with the refresh token
		default:
			failed = append(failed, fmt.Errorf("revoke the %s: %w", one.kind, err))
		}
	}
	return errors.Join(failed...)
}

const (
	maxLife   = 10 * 365 * 24 * time.Hour  // of an access token
	maxCount  = 200 * 365 * 24 * time.Hour // of any number of seconds: a Duration holds little more
	maxScopes = 1000                       // of a token
)

// token asks the token endpoint. asked are the scopes of the token if the issuer does not name them.
func (g *Grantor) token(ctx context.Context, form url.Values, asked []string) (Token, error) {
	now := time.Now().Round(0) // the wall clock: the other one stands still while the machine sleeps
	r, err := g.form(ctx, "token", g.Issuer.TokenEndpoint, g.asking(form, nil))
	if err != nil {
		return Token{}, err
	}
	return readToken(r, now, asked)
}

// readToken returns the token of a reply to a request that was sent at a time. No error has the
// reply's text.
func readToken(r reply, at time.Time, asked []string) (Token, error) {
	if kind := r.text("token_type"); kind != "" && !strings.EqualFold(kind, "Bearer") {
		return Token{}, fmt.Errorf("the issuer grants a token of the type %q: only Bearer is known here", shorten(kind, 64))
	}
	t := Token{Access: r.text("access_token"), Refresh: r.text("refresh_token"), Obtained: at, Scopes: scopesOf(r.text("scope"), asked)}
	switch {
	case t.Access == "":
		return Token{}, errors.New("the issuer's answer has no access_token")
	case !isVisible(t.Access, '!'):
		return Token{}, fmt.Errorf("the issuer grants a token that can't be sent: it is longer than %d bytes, or has characters that no header may have", maxToken)
	case !isVisible(t.Refresh, ' '):
		return Token{}, fmt.Errorf("the issuer grants a refresh token that is longer than %d bytes, or has characters that none may have", maxToken)
	}
	// A life that is not positive says nothing: such a token would be refreshed before each request.
	if life := secondsOf(r["expires_in"]); life > 0 {
		t.Expires = at.Add(min(life, maxLife))
	}
	return t, nil
}

// isVisible reports whether the text is at most maxToken characters from first to '~'.
func isVisible(text string, first rune) bool {
	return len(text) <= maxToken && !strings.ContainsFunc(text, func(r rune) bool { return r < first || r > '~' })
}

// secondsOf returns a number of seconds, which some issuers send as a string; 0 without a
// positive number. It is at most maxCount.
func secondsOf(field json.RawMessage) time.Duration {
	seconds, err := strconv.ParseFloat(strings.Trim(string(field), `"`), 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) || !(seconds > 0) {
		return 0
	}
	return time.Duration(min(seconds, maxCount.Seconds()) * float64(time.Second))
}

// scopesOf returns the scopes of a token: as asked for if the issuer does not name them.
// GitHub separates them by commas.
func scopesOf(text string, asked []string) []string {
	separated := func(r rune) bool { return r == ' ' }
	if !slices.ContainsFunc(asked, func(scope string) bool { return strings.Contains(scope, ",") }) {
		separated = func(r rune) bool { return r == ' ' || r == ',' }
	}
	granted := strings.FieldsFunc(text, separated)
	if len(granted) == 0 {
		return slices.Clone(asked)
	}
	return Union(nil, granted[:min(len(granted), maxScopes)])
}

// Format prints the token for all verbs without its secrets, as Format of the types below does.
func (t Token) Format(s fmt.State, _ rune) {
	fmt.Fprintf(s, "token until %s, refresh token: %t, scopes %q", t.Expires.Format(time.RFC3339), t.Refresh != "", t.Scopes)
}

func (c Client) Format(s fmt.State, _ rune) { fmt.Fprintf(s, "client %q (%s)", c.ID, c.AuthMethod) }

func (s Settings) Format(to fmt.State, _ rune) {
	fmt.Fprintf(to, "client %q, secret: %t, key: %t, grant %q", s.ClientID, s.ClientSecret != "", s.PrivateKey != "", s.Grant)
}

func (g Grantor) Format(s fmt.State, _ rune) { fmt.Fprintf(s, "%v at %q", g.Client, g.Issuer.ID) }

func (d Device) Format(s fmt.State, _ rune) { fmt.Fprintf(s, "device login at %q", d.URL) }

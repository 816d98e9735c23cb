package oauth

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

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

package bearer

import (
	"encoding/json"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/mcp-metarouter/metarouter/internal/wire"
)

const (
	maxLevels   = 16 // of arrays and objects in a token
	maxClaims   = 200
	maxAudience = 100
	lastTime    = 253402300799 // the end of the year 9999, in seconds
)

// parseClaims returns the members of a JSON object that is not too deep or too large. The
// error names the fault.
func parseClaims(object []byte) (map[string]json.RawMessage, error) {
	claims, twice := map[string]json.RawMessage{}, false
	levels, err := wire.Levels(object)
	if err == nil {
		err = wire.Members(object, func(name string, value []byte) bool {
			_, twice = claims[name]
			claims[name] = value
			return !twice && len(claims) <= maxClaims
		})
	}
	switch {
	case levels > maxLevels:
		return nil, invalid("it is nested deeper than %d levels", maxLevels)
	case !utf8.Valid(object):
		return nil, invalid("its claims are not UTF-8")
	case err != nil:
		return nil, invalid("its claims are not a JSON object")
	case twice:
		return nil, invalid("it has a claim twice")
	case len(claims) > maxClaims:
		return nil, invalid("it has more than %d claims", maxClaims)
	}
	return claims, nil
}

// newVerified returns the token of these claims. ends is set for tokens that must name their end.
func newVerified(i *issuer, claims map[string]json.RawMessage, ends bool) (*verified, error) {
	if err := checkUse(claims); err != nil {
		return nil, err
	}
	expires, err := checkTimes(claims, ends)
	if err != nil {
		return nil, err
	}
	audience, err := textsOf(claims["aud"])
	switch {
	case err != nil:
		return nil, invalid("its audience (aud) is not text")
	case len(audience) == 0:
		return nil, invalid("it does not say for whom it is (aud)")
	case len(audience) > maxAudience:
		return nil, invalid("it is for more than %d audiences", maxAudience)
	}
	scopes, err := scopesOf(claims)
	if err != nil {
		return nil, err
	}
	return &verified{
		Token:    &Token{Issuer: i.settings.URL, Claims: claims, Scopes: scopes, Expires: expires},
		issuer:   i,
		audience: audience,
	}, nil
}

// checkUse refuses tokens that are not for a resource server, or not for a plain bearer.
func checkUse(claims map[string]json.RawMessage) error {
	if !isNull(claims["cnf"]) {
		return invalid("it is bound to a key or certificate of its client (cnf: DPoP or mTLS), which this router does not check; ask the issuer for an unbound token")
	}
	// Cognito and Hydra have the kind of a token in token_use, Keycloak in typ.
	use, _ := wire.Decode(claims["token_use"]) // nil of one that is missing
	typ, _ := wire.Decode(claims["typ"])
	if use != nil && use != "access" && use != "access_token" {
		return invalid("it is no access token (token_use)")
	}
	if slices.Contains([]any{"ID", "Refresh", "Offline", "Logout"}, typ) {
		return invalid("it is no access token (typ)")
	}
	return nil
}

// checkTimes refuses tokens outside of their times, and returns when they expire.
func checkTimes(claims map[string]json.RawMessage, ends bool) (expires time.Time, err error) {
	var at [3]time.Time
	for n, name := range []string{"exp", "nbf", "iat"} {
		if at[n], err = timeOf(claims, name); err != nil {
			return expires, err
		}
	}
	now, exp := time.Now(), at[0]
	switch {
	case exp.IsZero() && ends:
		return expires, invalid("it does not say when it expires (exp)")
	case exp.IsZero():
		exp = now.Add(keepTime)
	case hasExpired(exp):
		return expires, invalid("it has expired")
	}
	switch latest := now.Add(clockSkew); {
	case at[1].After(latest):
		return expires, invalid("it is not valid yet (nbf)")
	case at[2].After(latest):
		return expires, invalid("it was issued in the future (iat)")
	}
	return exp, nil
}

func hasExpired(end time.Time) bool { return !time.Now().Before(end.Add(clockSkew)) }

// timeOf returns the time of a claim; zero if it is missing.
func timeOf(claims map[string]json.RawMessage, name string) (time.Time, error) {
	raw := claims[name]
	if isNull(raw) {
		return time.Time{}, nil
	}
	var seconds float64
	if err := json.Unmarshal(raw, &seconds); err != nil || seconds < 0 || seconds > lastTime {
		return time.Time{}, invalid("its claim %s is no time", name)
	}
	return time.UnixMicro(int64(seconds * 1e6)), nil
}

// ofTokens are the characters of tokens.
const ofTokens = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~+/"

// checkText refuses a text that can't be a token: b64token of RFC 6750, section 2.1.
func checkText(token string) error {
	switch {
	case token == "":
		return invalid("it is empty")
	case len(token) > maxToken:
		return invalid("it is longer than %d bytes", maxToken)
	case strings.Trim(strings.TrimRight(token, "="), ofTokens) != "":
		return invalid("it has a character that tokens do not have")
	}
	return nil
}

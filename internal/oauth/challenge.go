package oauth

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/oauthex"
)

const (
	maxChallenges      = 16      // headers that are read
	maxChallengeHeader = 8 << 10 // bytes of one
	maxURL             = 2 << 10 // bytes
	maxNamedScopes     = 100     // of a challenge or a document
	maxScope           = 256     // bytes of one
)

// ChallengeOf returns the challenge of a response with the status 401 or 403 for the scheme
// Bearer, whatever other schemes the response offers. If it has several challenges, each value
// comes from the first that has it. A malformed header does not count.
//
// At most 16 headers of 8 KiB, 100 scopes of 256 bytes and a URL of 2 KiB are read. A URL that is
// not absolute is no URL, and a scope with characters that no scope has is left out.
func ChallengeOf(resp *http.Response) Challenge {
	var c Challenge
	headers := resp.Header.Values("WWW-Authenticate")
	for _, header := range headers[:min(len(headers), maxChallenges)] {
		if len(header) > maxChallengeHeader {
			continue
		}
		challenges, _ := oauthex.ParseWWWAuthenticate([]string{header}) // none of a malformed header
		for _, challenge := range challenges {
			if challenge.Scheme == "bearer" {
				c.add(challenge.Params)
			}
		}
	}
	return c
}

// add takes the values that c has not.
func (c *Challenge) add(params map[string]string) {
	if at := params["resource_metadata"]; c.MetadataURL == "" && len(at) <= maxURL {
		if u, err := url.Parse(at); err == nil && u.Host != "" && (u.Scheme == "https" || u.Scheme == "http") {
			c.MetadataURL = at
		}
	}
	if c.Scopes == nil {
		c.Scopes = ValidScopes(strings.Fields(params["scope"]))
	}
	if code := params["error"]; c.Error == "" && len(code) <= 64 && isScope(code) { // has the same characters
		c.Error = code
	}
}

// ValidScopes returns those texts that are scopes (RFC 6749, section 3.3), as many as fit the bounds, each
// once. It is nil without such scopes.
func ValidScopes(all []string) []string {
	var scopes []string
	for _, scope := range all {
		if len(scope) <= maxScope && isScope(scope) && len(scopes) < maxNamedScopes && !slices.Contains(scopes, scope) {
			scopes = append(scopes, scope)
		}
	}
	return scopes
}

// isScope reports whether a text has only the characters of a scope, and at least one.
func isScope(text string) bool {
	return text != "" && !strings.ContainsFunc(text, func(c rune) bool { return c <= ' ' || c > '~' || c == '"' || c == '\\' })
}

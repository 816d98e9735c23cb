package oauth

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/oauthex"

	"github.com/mcp-metarouter/metarouter/internal/lazy"
)

const (
	maxChallenges      = 16       // headers that are read
	maxChallengeHeader = 8 << 10  // bytes of one
	maxURL             = 2 << 10  // bytes
	maxNamedScopes     = 100      // of a challenge or a document
	maxScope           = 256      // bytes of one
	maxScopesText      = 16 << 10 // bytes of all
)

// ChallengeOf returns the challenge of a response with the status 401 or 403 for the scheme
// Bearer, whatever other schemes the response offers. If it has several challenges, each value
// comes from the first that has it. The legible part of a malformed header counts.
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
		challenges, err := oauthex.ParseWWWAuthenticate([]string{header})
		if err != nil {
			challenges = readChallenges(header)
		}
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
		c.Scopes = namedScopes(strings.Fields(params["scope"]))
	}
	if code := params["error"]; c.Error == "" && len(code) <= 64 && isScope(code) { // has the same characters
		c.Error = code
	}
}

// namedScopes returns those that are scopes (RFC 6749, section 3.3), as many as fit the bounds, each
// once. It is nil without such scopes.
func namedScopes(all []string) []string {
	var scopes []string
	seen, size := map[string]bool{}, 0
	for _, scope := range all {
		if len(scope) > maxScope || !isScope(scope) || seen[scope] {
			continue
		}
		size += len(scope)
		if len(scopes) == maxNamedScopes || size > maxScopesText {
			break
		}
		seen[scope] = true
		scopes = append(scopes, scope)
	}
	return scopes
}

// isScope reports whether a text has only the characters of a scope, and at least one.
func isScope(text string) bool {
	return text != "" && !strings.ContainsFunc(text, func(c rune) bool { return c <= ' ' || c > '~' || c == '"' || c == '\\' })
}

var (
	// part matches a word, or a parameter: its name, "=" with the value, and the value in quotes with the last
	// quote, or without quotes. A quoted value without a name is skipped.
	part   = lazy.Regexp(`(?s)([^ \t,="]+)([ \t]*=[ \t]*(?:"((?:[^"\\]|\\.)*)("?)|([^ \t,]*)))?|"(?:[^"\\]|\\.)*"?`)
	escape = lazy.Regexp(`(?s)\\(.)`)
)

// readChallenges reads a header that is malformed. It takes each name=value as a parameter of the
// scheme before it, with or without commas, and skips the rest. A string that does not end has no value.
func readChallenges(header string) (challenges []oauthex.Challenge) {
	for _, m := range part().FindAllStringSubmatch(header, -1) {
		word, value := strings.ToLower(m[1]), m[5]
		if m[4] != "" {
			value = escape().ReplaceAllString(m[3], "$1")
		}
		switch n := len(challenges); {
		case word == "":
		case m[2] == "":
			challenges = append(challenges, oauthex.Challenge{Scheme: word, Params: map[string]string{}})
		case n > 0:
			if _, has := challenges[n-1].Params[word]; !has {
				challenges[n-1].Params[word] = value
			}
		}
	}
	return challenges
}

package identity

import (
	"slices"
	"strings"
)

// maxDescription bounds the error_description of a challenge, in bytes.
const maxDescription = 200

// Challenge returns the header WWW-Authenticate for a client without a token: which token it needs, and where
// its issuer is found (RFC 6750, RFC 9728).
func (c *Client) Challenge() string { return c.challenge("", "", c.scopesToAsk()) }

// challenge is Challenge with an error code of RFC 6750, "" if the request had no token.
func (c *Client) challenge(wrong, why string, scopes []string) string {
	if !c.Rules.HasIssuers() {
		return "Bearer"
	}
	var b strings.Builder
	b.WriteString("Bearer ")
	if wrong != "" {
		b.WriteString(`error="` + wrong + `", error_description="` + quotable(why) + `", `)
	}
	b.WriteString(`resource_metadata="` + c.Rules.PublicURL + metadataPath + c.Resource + `"`)
	if scope := scopeOf(scopes); scope != "" {
		b.WriteString(`, scope="` + scope + `"`)
	}
	return b.String()
}

// scopesToAsk returns the scopes that a client without a good token needs for the request.
func (c *Client) scopesToAsk() []string {
	all := c.Rules.works()
	switch {
	case len(all) == 0:
		return nil
	case c.Admin:
		return all[0].Admin
	}
	return slices.Concat(all[0].Read, all[0].Call)
}

// scopeOf returns the scopes as one text. A text that is no scope by RFC 6749 is left out.
func scopeOf(scopes []string) string {
	var all []string
	for _, scope := range scopes {
		bad := strings.ContainsFunc(scope, func(r rune) bool { return r <= ' ' || r > '~' || r == '"' || r == '\\' })
		if scope != "" && !bad && !slices.Contains(all, scope) {
			all = append(all, scope)
		}
	}
	return strings.Join(all, " ")
}

// quotable returns the text with the characters alone that RFC 6750 allows in error_description.
func quotable(text string) string {
	text = strings.Map(func(r rune) rune {
		switch {
		case r == '"', r == '\\':
			return '\''
		case r < ' ', r > '~':
			return ' '
		}
		return r
	}, text)
	return text[:min(len(text), maxDescription)]
}

// hasScope reports whether one of the scopes is wanted. Some issuers put the last segment of a
// scope that is a URL into tokens.
func hasScope(scopes, wanted []string) bool {
	return slices.ContainsFunc(wanted, func(scope string) bool {
		last := scope[strings.LastIndexByte(scope, '/')+1:]
		return slices.Contains(scopes, scope) || last != "" && slices.Contains(scopes, last)
	})
}

package httpd

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"github.com/mcp-metarouter/metarouter/server/internal/conversation"
)

// maxDescription bounds the error_description of a challenge, in bytes.
const maxDescription = 200

// challenge says in WWW-Authenticate which token the client needs, and where its issuer is found
// (RFC 6750, RFC 9728). wrong is the error code; "" if the request had no token.
func challenge(w http.ResponseWriter, r *http.Request, wrong, why string, scopes []string) {
	q := requestOf(r)
	if _, ok := q.rules.issuer(); !ok {
		w.Header().Set("WWW-Authenticate", "Bearer")
		return
	}
	var b strings.Builder
	b.WriteString("Bearer ")
	if wrong != "" {
		b.WriteString(`error="` + wrong + `", error_description="` + quotable(why) + `", `)
	}
	b.WriteString(`resource_metadata="` + q.rules.publicURL + metadataPath + q.target.mcpPath() + `"`)
	if scope := scopeOf(scopes); scope != "" {
		b.WriteString(`, scope="` + scope + `"`)
	}
	w.Header().Set("WWW-Authenticate", b.String())
}

// scopesToAsk returns the scopes that a client without a good token needs for the route.
func (q *request) scopesToAsk() []string {
	i, _ := q.rules.issuer()
	if judged[q.target.route] == needsAdmin {
		return i.Admin
	}
	return slices.Concat(i.Read, i.Call)
}

// refuseScope answers a request whose token lacks one of the scopes, with those that the client
// has to ask its issuer for.
func refuseScope(w http.ResponseWriter, r *http.Request, id json.RawMessage, lacks []string, err error) {
	q := requestOf(r)
	challenge(w, r, "insufficient_scope", conversation.AsError(err).Message, slices.Concat(q.client.proof.Scopes, lacks))
	refuse(w, r, http.StatusForbidden, id, err)
}

// scopeOf returns the scopes as one text. What is no scope by RFC 6749 is left out.
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

// refuseNoAdmin answers a request for a page by a principal of an issuer who is no admin.
func refuseNoAdmin(w http.ResponseWriter, r *http.Request) {
	q := requestOf(r)
	who := "the user " + conversation.Brief(q.client.principal.Name)
	i := q.rules.issuers[q.client.proof.Issuer]
	if i != nil && len(i.Admin) > 0 && !hasScope(q.client.proof.Scopes, i.Admin) {
		refuseScope(w, r, nil, i.Admin, conversation.InvalidRequest("the access token of "+who+" does not have the scope for administration; ask the issuer for it"))
		return
	}
	refuse(w, r, http.StatusForbidden, nil, conversation.InvalidRequest(who+` is no administrator by "admins" of the issuer, and may use tools at /mcp and not this page`))
}

// hasScope reports whether one of the scopes is wanted. Some issuers put the last segment of a
// scope that is a URL into tokens.
func hasScope(scopes, wanted []string) bool {
	return slices.ContainsFunc(wanted, func(scope string) bool {
		last := scope[strings.LastIndexByte(scope, '/')+1:]
		return slices.Contains(scopes, scope) || last != "" && slices.Contains(scopes, last)
	})
}

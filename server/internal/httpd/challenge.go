package httpd

import (
	"encoding/json"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/server/internal/conversation"
)

// maxDescription bounds the error_description of a challenge, in bytes.
const maxDescription = 200

// challenge says in WWW-Authenticate which token the client needs, and where its issuer is found
// (RFC 6750, RFC 9728). wrong is the error code; "" if the request had no token.
func (x *exchange) challenge(wrong, why string, scopes []string) {
	if _, ok := x.rules.issuer(); !ok {
		x.w.Header().Set("WWW-Authenticate", "Bearer")
		return
	}
	var b strings.Builder
	b.WriteString("Bearer ")
	if wrong != "" {
		b.WriteString(`error="` + wrong + `", error_description="` + quotable(why) + `", `)
	}
	b.WriteString(`resource_metadata="` + x.rules.publicURL + metadataPath + x.mcpPath() + `"`)
	if scope := scopeOf(scopes); scope != "" {
		b.WriteString(`, scope="` + scope + `"`)
	}
	x.w.Header().Set("WWW-Authenticate", b.String())
}

// scopesToAsk returns the scopes that a client without a good token needs for the route.
func (x *exchange) scopesToAsk() []string {
	i, _ := x.rules.issuer()
	if judged[x.to] == needsAdmin {
		return i.Admin
	}
	return slices.Concat(i.Read, i.Call)
}

// refuseScope answers a request whose token lacks one of the scopes, with those that the client
// has to ask its issuer for.
func (x *exchange) refuseScope(id json.RawMessage, lacks []string, err error) {
	x.challenge("insufficient_scope", conversation.AsError(err).Message, slices.Concat(x.proof.Scopes, lacks))
	x.refuse(http.StatusForbidden, id, err)
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

// retryAfter says after which time, at least a second, the client may try again.
func (x *exchange) retryAfter(wait time.Duration) {
	x.w.Header().Set("Retry-After", strconv.Itoa(max(1, int(math.Ceil(wait.Seconds())))))
}

// busy is the error of a request that may be sent again later.
func busy(why string) error {
	return &session.Error{Code: session.CodeInternal, Message: "busy: " + why}
}

// refuseNoAdmin answers a request for a page by a principal of an issuer who is no admin.
func (x *exchange) refuseNoAdmin() {
	who := "the user " + conversation.Brief(x.principal.Name)
	i := x.rules.issuers[x.proof.Issuer]
	if i != nil && len(i.Admin) > 0 && !hasScope(x.proof.Scopes, i.Admin) {
		x.refuseScope(nil, i.Admin, conversation.InvalidRequest("the access token of "+who+" does not have the scope for administration; ask the issuer for it"))
		return
	}
	x.refuse(http.StatusForbidden, nil, conversation.InvalidRequest(who+` is no administrator by "admins" of the issuer, and may use tools at /mcp and not this page`))
}

// hasScope reports whether one of the scopes is wanted. Some issuers put the last segment of a
// scope that is a URL into tokens.
func hasScope(scopes, wanted []string) bool {
	return slices.ContainsFunc(wanted, func(scope string) bool {
		last := scope[strings.LastIndexByte(scope, '/')+1:]
		return slices.Contains(scopes, scope) || last != "" && slices.Contains(scopes, last)
	})
}

package identity

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/clientauth"
	"github.com/mcp-metarouter/metarouter/internal/oauth"
	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/server/internal/conversation"
)

// A Sender is who sends a request. The caller sets the first four fields, and [Identifier.Identify] the
// others.
type Sender struct {
	Rules    *Rules // in force when the request came
	Resource string // the MCP path that a token must be for: [ResourceOf] the profile
	Admin    bool   // the request is for administrators only
	Browser  bool   // browsers send it, with a cookie

	Principal clientauth.Principal // zero until the client is let in
	Grant     *Grant               // of the principal; nil until the client is let in

	session *browserSession   // the browser's login; nil if the client has proved itself by a token
	proof   *clientauth.Proof // of the issuer's access token by which the client is let in; may be nil
	subject session.Subject   // of the proof
	wait    time.Duration     // too many tokens of the client's address were refused: after which time it may try again
	wrong   error             // why the client's access token does not let it in; nil without such a token
}

// IsIn reports whether the client was let in.
func (c *Sender) IsIn() bool { return c.Grant != nil }

// IsRevoked reports whether the client was let in, and may not be served any more.
func (c *Sender) IsRevoked() bool { return c.Grant != nil && c.Grant.Context.Err() != nil }

// LoggedIn reports whether the client is a browser that has logged in.
func (c Sender) LoggedIn() bool { return c.session != nil }

// WithSubject returns a context for what the client asks for, with the access token that has let it in if an issuer's token has.
func (c *Sender) WithSubject(ctx context.Context) context.Context {
	return session.WithSubject(ctx, c.subject)
}

// A Denial is a refusal, as the client is answered.
type Denial struct {
	Status    int           // of HTTP
	Err       error         // for the client
	Why       string        // for the audit log; "" is Err
	Challenge string        // the header WWW-Authenticate; "" is [Sender.Challenge] of 401, and no challenge for others
	Wait      time.Duration // after which the client may try again; 0 says nothing of that
}

// Busy is the denial of a request that may be sent again after a while.
func Busy(status int, wait time.Duration, why string) *Denial {
	seconds := secondsOf(wait)
	return &Denial{Status: status, Wait: wait, Err: &session.Error{
		Code: session.CodeInternal, Message: fmt.Sprintf("%s; try again in %d s", why, seconds), Data: wire.Marshal(map[string]int{"retry_after": seconds}),
	}}
}

// Write writes the headers of the denial.
func (d *Denial) Write(h http.Header) {
	if d.Wait > 0 {
		h.Set("Retry-After", strconv.Itoa(secondsOf(d.Wait)))
	}
	if d.Challenge != "" {
		h.Set("WWW-Authenticate", d.Challenge)
	}
}

// secondsOf returns how many seconds, at least one, a client shall wait.
func secondsOf(wait time.Duration) int { return max(1, int(math.Ceil(wait.Seconds()))) }

// Unknown is the denial of a request that proves no identity.
func (c *Sender) Unknown(r *http.Request) *Denial {
	refusal, refused := errors.AsType[*clientauth.Refusal](c.wrong)
	switch {
	case c.wrong == nil:
		why := "no token"
		if r.Header.Get("Authorization") != "" {
			why = "unknown token"
		}
		err := conversation.InvalidRequest("the request has no valid token: send Authorization: Bearer TOKEN")
		return &Denial{Status: http.StatusUnauthorized, Err: err, Why: why}
	case c.wait > 0:
		return Busy(http.StatusTooManyRequests, c.wait, "busy: too many access tokens from this address were refused")
	case !refused:
		return Busy(http.StatusServiceUnavailable, retryIssuer, "busy: the access token can't be verified now: its issuer does not answer, or was just edited")
	}
	status, code, why, scopes := http.StatusUnauthorized, "invalid_token", "the access token is refused: ", c.scopesToAsk()
	if refusal.Status == http.StatusForbidden {
		status, code, why, scopes = refusal.Status, "insufficient_scope", "the access token is valid, but does not let its user in: ", refusal.Scopes
	}
	d := &Denial{Status: status, Why: refusal.Reason, Err: conversation.InvalidRequest(why + conversation.Brief(refusal.Reason))}
	if status == http.StatusUnauthorized || len(scopes) > 0 {
		d.Challenge = c.challenge(code, refusal.Reason, scopes)
	}
	return d
}

// Revoked is the denial of a request with a grant that has ended.
func (c *Sender) Revoked() *Denial {
	return &Denial{
		Status: http.StatusUnauthorized, Err: ErrRevoked, Why: "the token was removed or changed while the request was served",
		Challenge: c.challenge("invalid_token", ErrRevoked.Error(), c.scopesToAsk()),
	}
}

// Forbidden is the denial of a request for administrators by a client who is not one; nil if the client, who is
// let in, may make the request.
func (c *Sender) Forbidden() *Denial {
	if !c.Admin || c.Principal.Admin {
		return nil
	}
	name := conversation.Brief(c.Principal.Name)
	if c.proof == nil {
		return &Denial{Status: http.StatusForbidden, Err: conversation.InvalidRequest(`the token ` + name + ` has the role "use", which may use tools at /mcp and not this page; send a token of the role "admin"`)}
	}
	if i := c.Rules.issuers[c.proof.Issuer]; i != nil && len(i.Admin) > 0 && !c.proof.MayAdminister {
		return c.lacks(i.Admin, "the access token of the user "+name+" does not have the scope for administration; ask the issuer for it")
	}
	return &Denial{Status: http.StatusForbidden, Err: conversation.InvalidRequest("the user " + name + ` is no administrator by "admins" of the issuer, and may use tools at /mcp and not this page`)}
}

// NeedsCall is the denial of a call by a client with a token that may become good for it with the scope for calls;
// nil if no scope would help.
func (c *Sender) NeedsCall() *Denial {
	if !c.Principal.Reads || c.proof == nil {
		return nil
	}
	if i := c.Rules.issuers[c.proof.Issuer]; i != nil && len(i.Call) > 0 {
		return c.lacks(i.Call, "the access token may use only tools that just read, and this tool may do more; ask the issuer for the scope for calls")
	}
	return nil
}

// lacks is the denial of a request with a token that lacks one of the scopes, with the scopes that the client has to
// ask its issuer for.
func (c *Sender) lacks(scopes []string, why string) *Denial {
	err := conversation.InvalidRequest(why)
	return &Denial{Status: http.StatusForbidden, Err: err, Challenge: c.challenge("insufficient_scope", why, slices.Concat(c.proof.Scopes, scopes))}
}

// Hostname returns host without a port and without the brackets of IPv6.
func Hostname(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		return name
	}
	return strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
}

// maxDescription bounds the error_description of a challenge, in bytes.
const maxDescription = 200

// Challenge returns the header WWW-Authenticate for a client without a token: which token it needs, and where
// its issuer is found (RFC 6750, RFC 9728).
func (c *Sender) Challenge() string { return c.challenge("", "", c.scopesToAsk()) }

// challenge is Challenge with an error code of RFC 6750, "" if the request had no token.
func (c *Sender) challenge(wrong, why string, scopes []string) string {
	if !c.Rules.HasIssuers() {
		return "Bearer"
	}
	header := "Bearer "
	if wrong != "" {
		header += `error="` + wrong + `", error_description="` + quotable(why) + `", `
	}
	header += `resource_metadata="` + c.Rules.PublicURL + metadataPath + c.Resource + `"`
	if scope := scopeOf(scopes); scope != "" {
		header += `, scope="` + scope + `"`
	}
	return header
}

// scopesToAsk returns the scopes that a client without a good token needs for the request.
func (c *Sender) scopesToAsk() []string {
	all := c.Rules.works
	switch {
	case len(all) == 0:
		return nil
	case c.Admin:
		return all[0].Admin
	}
	return slices.Concat(all[0].Read, all[0].Call)
}

// scopeOf returns the scopes as one text. A text that is no scope by RFC 6749 is left out.
func scopeOf(scopes []string) string { return strings.Join(oauth.ValidScopes(scopes), " ") }

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

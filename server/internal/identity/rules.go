package identity

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"net/http"
	"net/url"
	"path"
	"reflect"
	"slices"
	"strings"

	"github.com/mcp-metarouter/metarouter/internal/clientauth"
	"github.com/mcp-metarouter/metarouter/server/internal/conversation"
)

// Rules say who is let in. They are replaced, not modified. Each request is served by the rules of the
// moment when it came.
type Rules struct {
	Public    bool                     // requests need no token
	PublicURL string                   // by which clients reach the router, without a slash at the end; "" if it is not known
	Prefix    string                   // its path; may be ""
	tokens    []clientauth.Principal   // requests must have the token of one of them
	judge     clientauth.Authenticator // of certificates and access tokens; may be nil
	works     []clientauth.Issuer      // that let clients in, the one first that clients need a token of: those without mistakes; nil without a PublicURL
	issuers   map[string]*issuerGrant  // by URL
	grants    map[clientauth.Principal]*Grant
}

// NewRules returns rules that replace the rules before, which may be nil. judge, which may be nil, knows clients of the
// issuers and with certificates. An issuer without a URL stands for a mistake, and lets no client in.
func NewRules(tokens []clientauth.Principal, issuers []clientauth.Issuer, judge clientauth.Authenticator, publicURL string, before *Rules) *Rules {
	if before == nil {
		before = new(Rules)
	}
	r := &Rules{
		Public: len(tokens) == 0 && len(issuers) == 0, PublicURL: strings.TrimRight(publicURL, "/"),
		judge: judge, tokens: tokens, issuers: make(map[string]*issuerGrant), grants: make(map[clientauth.Principal]*Grant),
	}
	r.Prefix = prefixOf(r.PublicURL)
	if r.Public {
		tokens = []clientauth.Principal{anyone}
	}
	for _, who := range tokens { // grants that were there before go on
		if r.grants[who] = before.grants[who]; r.grants[who] == nil {
			r.grants[who] = &Grant{Principal: who, right: newRight(context.Background())}
		}
	}
	if r.PublicURL != "" {
		r.works = slices.DeleteFunc(slices.Clone(issuers), func(i clientauth.Issuer) bool { return i.URL == "" })
	}
	for _, i := range slices.Backward(r.works) { // of two with one URL, the first counts
		g := before.issuers[i.URL]
		if g == nil || before.PublicURL != r.PublicURL || !reflect.DeepEqual(g.Issuer, i) { // at another URL, other tokens are needed
			g = &issuerGrant{i, newRight(context.Background())}
		}
		r.issuers[i.URL] = g
	}
	return r
}

// Revoke ends the grants of before that next has not, before next is in force. Sessions, requests and logins of browsers
// follow their grant. abandon has to give up the suspended requests of these clients.
func (i *Identifier) Revoke(before, next *Rules, abandon func(these func(conversation.Identity) bool)) {
	for who, g := range before.grants {
		if next.grants[who] != g {
			g.revoke(ErrRevoked)
			abandon(func(of conversation.Identity) bool { return of.Issuer == "" && of.Principal == who.Hash })
		}
	}
	for url, g := range before.issuers {
		if next.issuers[url] != g {
			g.revoke(ErrRevoked)
			abandon(func(of conversation.Identity) bool { return of.Issuer == url })
		}
	}
	i.login.sessions.edited()
}

// holder returns the principal that has the token.
func (r *Rules) holder(token string) (who clientauth.Principal, ok bool) {
	sum := sha256.Sum256([]byte(strings.TrimSpace(token)))
	hash := []byte(hex.EncodeToString(sum[:]))
	for _, known := range r.tokens { // all of them, so that the time that this takes reveals nothing
		if subtle.ConstantTimeCompare([]byte(known.Hash), hash) == 1 && !ok {
			who, ok = known, true
		}
	}
	return who, ok
}

// grant returns the grant of the request by a token of the options; nil if the token is missing or
// another one.
func (r *Rules) grant(q *http.Request) *Grant {
	if r.Public {
		return r.grants[anyone]
	}
	if who, ok := r.holder(bearerOf(q)); ok {
		return r.grants[who]
	}
	return nil
}

// A proxy may serve the router below a path prefix, the path of the public URL, and strip it from
// requests or not.

// prefixOf returns the path of the public URL, which may be "". A path such as //host or /a/../b is
// not used: it could lead browsers elsewhere.
func prefixOf(public string) string {
	u, err := url.Parse(public)
	if err != nil || u.Path == "" || u.Path != path.Clean(u.Path) {
		return ""
	}
	return strings.TrimRight(u.Path, "/")
}

// At returns a path of ours as browsers know it.
func (r *Rules) At(path string) string {
	prefix := url.URL{Path: r.Prefix}
	return prefix.EscapedPath() + path
}

// Below returns the rest after the prefix in a path. It reports false if the path is not below it, or if
// there is no prefix.
func (r *Rules) Below(path string) (rest string, ok bool) {
	rest, ok = strings.CutPrefix(path, r.Prefix)
	if r.Prefix == "" || !ok || rest != "" && rest[0] != '/' {
		return "", false
	}
	return rest, true
}

// ErrRevoked is why requests end when their token was removed, or now has another name, profile or
// role.
var ErrRevoked = conversation.InvalidRequest("the token of this request was removed or changed while the request was served; send Authorization: Bearer TOKEN with a valid one")

// A right ends for good when an edit takes it away, with the cause [ErrRevoked]; the same right in a later
// edit is another one.
type right struct {
	Context context.Context // ends with the right
	revoke  context.CancelCauseFunc
}

func newRight(within context.Context) (r right) {
	r.Context, r.revoke = context.WithCancelCause(within)
	return r
}

// A Grant is the right of a principal to send requests. It ends when an edit removes or changes the token.
type Grant struct {
	clientauth.Principal
	right
	issuer string // of the token that has proved the principal; "" for a token of the options
}

// Identity returns the principal as conversations know it.
func (g *Grant) Identity() conversation.Identity {
	return conversation.Identity{Principal: g.Hash, PrincipalName: g.Name, Claims: g.Claims, Admin: g.Admin, Issuer: g.issuer}
}

// An issuerGrant is the right of all principals that an issuer lets in. It ends when an edit removes the
// issuer or changes its configuration.
type issuerGrant struct {
	clientauth.Issuer
	right
}

// prove returns the proof of a token for a resource, and the grant of its principal, which has ended if the issuer was edited
// since these rules were in force.
func (r *Rules) prove(ctx context.Context, token, resource string) (clientauth.Proof, *Grant, error) {
	p, err := r.judge.Token(ctx, token, resource)
	i := r.issuers[p.Issuer]
	if err == nil && (i == nil || p.Principal.Hash == "") {
		err = errors.New("the token proves no principal of an issuer of the configuration")
	}
	if err != nil {
		return clientauth.Proof{}, nil, err
	}
	return p, &Grant{Principal: p.Principal, issuer: i.URL, right: i.right}, nil
}

// HasIssuers reports whether issuers let clients in, so that there are metadata for them.
func (r *Rules) HasIssuers() bool { return len(r.works) > 0 }

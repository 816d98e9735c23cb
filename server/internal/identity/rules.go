package identity

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"net/http"
	"net/url"
	"path"
	"strings"

	"github.com/mcp-metarouter/metarouter/internal/clientauth"
	"github.com/mcp-metarouter/metarouter/server/internal/conversation"
)

// Rules say who is let in. They are replaced, not modified. Each request is served by the rules of the
// moment when it came.
type Rules struct {
	Public    bool                    // requests need no token
	PublicURL string                  // by which clients reach the router, without a slash at the end; "" if it is not known
	Prefix    string                  // its path; may be ""
	current   func() *Rules           // returns the rules that are in force
	tokens    []clientauth.Principal  // requests must have the token of one of them
	listed    []clientauth.Issuer     // of the configuration, mistakes too
	issuers   map[string]*issuerGrant // by URL
	grants    map[clientauth.Principal]*Grant
}

// NewRules returns rules that replace the rules before, which may be nil. current returns the rules that are
// in force.
func NewRules(tokens []clientauth.Principal, issuers []clientauth.Issuer, publicURL string, before *Rules, current func() *Rules) *Rules {
	if before == nil {
		before = new(Rules)
	}
	r := &Rules{
		Public: len(tokens) == 0 && len(issuers) == 0, PublicURL: strings.TrimRight(publicURL, "/"),
		current: current, tokens: tokens, listed: issuers, issuers: newIssuerGrants(issuers, before.issuers),
	}
	r.Prefix = prefixOf(r.PublicURL)
	r.grants = newGrants(tokens, r.Public, before.grants)
	return r
}

// Revoke ends the grants of before that next has not, and the logins of browsers. Sessions and requests
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
	i.login.sessions.edited(next)
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

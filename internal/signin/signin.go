// Package signin logs people in at identity providers, for a page of this router: authorization
// code with PKCE (RFC 6749, RFC 7636). The result is an access token for this router; the
// caller decides about its rights.
package signin

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"sync"
	"time"

	"golang.org/x/oauth2"

	"github.com/mcp-metarouter/metarouter/internal/clientauth"
	"github.com/mcp-metarouter/metarouter/internal/oauth"
)

const (
	// Life is how long a person may take at the issuer.
	Life = 10 * time.Minute

	// maxPending bounds the logins that have begun. One more ends the oldest.
	maxPending = 1000
)

// Logins are the logins of browsers that are under way. Its methods may be called by many
// goroutines at once.
type Logins struct {
	mu      sync.Mutex          // guards pending
	pending map[string]*pending // by state
}

// A pending login has been begun, and can be completed once.
type pending struct {
	browser     string // that began it: the value of its cookie
	issuer      string // its URL
	verifier    string // of PKCE
	redirectURI string
	scopes      []string
	grantor     oauth.Grantor
	begun       time.Time
}

// Begin begins a login for the resource, the URL that tokens are for. at is the page of the
// issuer to open. The login comes back to redirectURI, and can be completed within Life by the
// browser that keeps the secret browser.
func (l *Logins) Begin(ctx context.Context, i clientauth.Issuer, resource, redirectURI string) (at, browser string, err error) {
	c := oauth.NewHTTPClient(oauth.Server{URL: i.URL})
	about, err := oauth.Describe(ctx, c, i.URL)
	if err != nil {
		return "", "", err
	}
	settings := oauth.Settings{ClientID: i.ClientID, ClientSecret: i.ClientSecret}
	client, err := oauth.Identify(ctx, c, oauth.Server{URL: i.URL, Settings: settings}, *about, oauth.Redirect{URI: redirectURI}, nil)
	if err != nil {
		return "", "", err
	}
	scopes := slices.Concat(i.Admin, i.Call, i.Read)
	if slices.Contains(about.Scopes, "openid") {
		scopes = append(scopes, "openid")
	}
	p := &pending{
		browser: rand.Text(), issuer: i.URL, verifier: oauth2.GenerateVerifier(), redirectURI: redirectURI, scopes: oauth.Union(nil, scopes),
		grantor: oauth.Grantor{HTTP: c, Issuer: *about, Client: client}, begun: time.Now(),
	}
	// Issuers know one of two ways to name the token's audience: the resource parameter of RFC
	// 8707, or one of their own, as Auth0's audience. Who has to write an audience into the
	// configuration has an issuer that does not issue for our URL, and that may refuse a resource,
	// as Entra does.
	if i.Audience == "" {
		p.grantor.Resource = resource
	}
	state := rand.Text()
	at = p.grantor.AuthorizationURL(state, p.verifier, redirectURI, p.scopes)
	if at == "" {
		return "", "", errors.New("the issuer names no page for logins (authorization_endpoint)")
	}
	if i.Audience != "" {
		at += "&audience=" + url.QueryEscape(i.Audience)
	}
	l.add(state, p)
	return at, p.browser, nil
}

// add keeps a login until it is completed or too old.
func (l *Logins) add(state string, p *pending) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.pending == nil {
		l.pending = make(map[string]*pending)
	}
	maps.DeleteFunc(l.pending, func(_ string, q *pending) bool { return p.begun.Sub(q.begun) >= Life })
	l.pending[state] = p
	if len(l.pending) > maxPending {
		older := func(a, b string) int { return l.pending[a].begun.Compare(l.pending[b].begun) }
		delete(l.pending, slices.MinFunc(slices.Collect(maps.Keys(l.pending)), older))
	}
}

// ErrUnknown is why a login is not completed that this browser has not begun, or that was completed
// or is too old.
var ErrUnknown = errors.New("this browser has begun no such login, or it was completed before, or it took longer than 10 minutes")

// Complete completes the login to which the query of a redirect belongs, for the browser with that
// secret. No login is completed twice, whatever the outcome was. A person may read the error.
func (l *Logins) Complete(ctx context.Context, browser string, query url.Values) (*Session, error) {
	state := query.Get("state")
	l.mu.Lock()
	p := l.pending[state]
	delete(l.pending, state)
	l.mu.Unlock()
	if p == nil || time.Since(p.begun) >= Life || subtle.ConstantTimeCompare([]byte(browser), []byte(p.browser)) != 1 {
		return nil, ErrUnknown
	}
	code, err := p.grantor.CheckResponse(query)
	if err != nil {
		return nil, readable(err)
	}
	token, err := p.grantor.Exchange(ctx, code, p.verifier, p.redirectURI, p.scopes)
	if err != nil {
		return nil, readable(err)
	}
	return &Session{Issuer: p.issuer, grantor: p.grantor, token: token}, nil
}

// A Session has the tokens of a completed login. It is immutable.
type Session struct {
	Issuer string // its URL

	grantor oauth.Grantor
	token   oauth.Token
}

// Format prints the session for all verbs without its tokens.
func (s *Session) Format(to fmt.State, _ rune) {
	fmt.Fprintf(to, "session at %q: %v", s.Issuer, s.token)
}

// Access returns the access token.
func (s *Session) Access() string { return s.token.Access }

// Revoke has the issuer forget the tokens, if it offers that.
func (s *Session) Revoke(ctx context.Context) error { return s.grantor.Revoke(ctx, s.token) }

// readable returns an error of an issuer with advice for this use of it; others as they are.
func readable(err error) error {
	refusal, ok := errors.AsType[*oauth.Refusal](err)
	if !ok {
		return err
	}
	words := refusal.Code
	if refusal.Description != "" {
		words += " (" + refusal.Description + ")"
	}
	return fmt.Errorf(`the issuer refuses: %s; compare this router's client there with "clientId", "clientSecret", "audience" and "scopeMap" of the issuer's entry of "http", "oauth"`, words)
}

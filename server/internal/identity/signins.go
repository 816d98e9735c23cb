package identity

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/oauth2"

	"github.com/mcp-metarouter/metarouter/internal/clientauth"
	"github.com/mcp-metarouter/metarouter/internal/oauth"
	cleaned "github.com/mcp-metarouter/metarouter/internal/plain"
)

const (
	// signInTime is how long a person may take at the issuer.
	signInTime = 10 * time.Minute

	// maxSignIns bounds the logins that have begun. One more ends the oldest.
	maxSignIns = 1000
)

// A signIn is a login of a browser at an issuer: authorization code with PKCE (RFC 6749, RFC 7636).
type signIn struct {
	browser     string // that began it: the value of its cookie
	issuer      string // its URL
	verifier    string // of PKCE
	redirectURI string
	scopes      []string
	grantor     oauth.Grantor
	begun       time.Time
	token       oauth.Token // once it is completed
}

// signIns are the logins at issuers that are under way. Each can be completed once.
type signIns struct {
	mu      sync.Mutex // guards byState
	byState map[string]*signIn
}

// begin begins a login for the resource, the URL that tokens are for. at is the page of the
// issuer to open. The login comes back to redirectURI, and can be completed by the
// browser that keeps the secret browser.
func (l *signIns) begin(ctx context.Context, i clientauth.Issuer, resource, redirectURI string) (at, browser string, err error) {
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
	s := &signIn{
		browser: rand.Text(), issuer: i.URL, verifier: oauth2.GenerateVerifier(), redirectURI: redirectURI, scopes: oauth.Union(nil, scopes),
		grantor: oauth.Grantor{HTTP: c, Issuer: *about, Client: client}, begun: time.Now(),
	}
	// Issuers know one of two ways to name the token's audience: the resource parameter of RFC
	// 8707, or one of their own, as Auth0's audience. Who has to write an audience into the
	// configuration has an issuer that does not issue for our URL, and that may refuse a resource,
	// as Entra does.
	if i.Audience == "" {
		s.grantor.Resource = resource
	}
	state := rand.Text()
	at = s.grantor.AuthorizationURL(state, s.verifier, redirectURI, s.scopes)
	if at == "" {
		return "", "", errors.New("the issuer names no page for logins (authorization_endpoint)")
	}
	if i.Audience != "" {
		at += "&audience=" + url.QueryEscape(i.Audience)
	}
	l.add(state, s)
	return at, s.browser, nil
}

// add keeps a login until it is completed or too old.
func (l *signIns) add(state string, s *signIn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	maps.DeleteFunc(l.byState, func(_ string, o *signIn) bool { return s.begun.Sub(o.begun) >= signInTime })
	if len(l.byState) >= maxSignIns {
		delete(l.byState, slices.MinFunc(slices.Collect(maps.Keys(l.byState)), func(a, b string) int {
			return l.byState[a].begun.Compare(l.byState[b].begun)
		}))
	}
	l.byState[state] = s
}

// errNoSignIn is why a login is not completed that this browser has not begun, or that was completed
// or is too old.
var errNoSignIn = errors.New("this browser has begun no such login, or it was completed before, or it took longer than 10 minutes")

// complete completes the login to which the query of a redirect belongs, for the browser with that
// secret. No login is completed twice, whatever the outcome was. A person may read the error.
func (l *signIns) complete(ctx context.Context, browser string, query url.Values) (*signIn, error) {
	state := query.Get("state")
	l.mu.Lock()
	s := l.byState[state]
	delete(l.byState, state)
	l.mu.Unlock()
	if s == nil || time.Since(s.begun) >= signInTime || subtle.ConstantTimeCompare([]byte(browser), []byte(s.browser)) != 1 {
		return nil, errNoSignIn
	}
	code, err := s.grantor.CheckResponse(query)
	if err == nil {
		s.token, err = s.grantor.Exchange(ctx, code, s.verifier, s.redirectURI, s.scopes)
	}
	return s, err
}

// sentence returns why a login was not completed as a sentence for a person.
func sentence(err error) string {
	if refusal, ok := errors.AsType[*oauth.Refusal](err); ok {
		words := refusal.Code
		if refusal.Description != "" {
			words += " (" + refusal.Description + ")"
		}
		err = fmt.Errorf(`the issuer refuses: %s; compare this router's client there with "clientId", "clientSecret", "audience" and "scopeMap" of the issuer's entry of "http", "oauth"`, words)
	}
	return "The login was not completed: " + strings.TrimSuffix(cleaned.Text(err.Error()), ".") + "."
}

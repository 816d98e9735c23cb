package identity

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/oauth2"

	"github.com/mcp-metarouter/metarouter/internal/audit"
	"github.com/mcp-metarouter/metarouter/internal/clientauth"
	"github.com/mcp-metarouter/metarouter/internal/oauth"
	cleaned "github.com/mcp-metarouter/metarouter/internal/plain"
)

const (
	signInPath   = loginPath + "/with"     // begins a login at an issuer
	signedInPath = loginPath + "/callback" // where it comes back

	begunSuffix = "_begun" // of the name of the cookie of a browser with a login under way

	// beginsPerMinute is how many logins at issuers one address may begin.
	beginsPerMinute = 20
)

// pageResource returns the resource for which the page's tokens are.
func pageResource(r *Rules) string { return r.PublicURL + "/mcp" }

// offered returns the issuers at which people can log in to the page.
func offered(r *Rules) []clientauth.Issuer {
	if r.judge == nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(r.works), func(at clientauth.Issuer) bool { return at.ClientID == "" })
}

// begin sends a browser to an issuer, after a click on our own page.
func (l *login) begin(w http.ResponseWriter, r *http.Request, c *Sender) {
	public := c.Rules.PublicURL
	issuers := offered(c.Rules)
	if len(issuers) == 0 {
		l.ask(w, c, http.StatusNotFound, "This router has no issuer to log in at. Load the page again.")
		return
	}
	if site := r.Header.Get("Sec-Fetch-Site"); r.Header.Get("Origin") != oauth.Origin(public) || site != "" && site != "same-origin" {
		l.ask(w, c, http.StatusForbidden, "A login at an issuer begins and ends at "+public+". Open that page, and log in there.")
		return
	}
	if wait := l.begins.Take(clientauth.Network(r.RemoteAddr), 1, 1); wait > 0 {
		l.tooMany(w, c, wait)
		return
	}
	asked := r.PostFormValue("issuer")
	n := slices.IndexFunc(issuers, func(at clientauth.Issuer) bool { return at.URL == asked })
	if n < 0 {
		l.ask(w, c, http.StatusBadRequest, "That is not an issuer of this router. Choose one of these.")
		return
	}
	at := issuers[n]
	ctx, cancel := l.bounded(r.Context(), callbackTime)
	defer cancel()
	next, browser, err := l.signIns.begin(ctx, at, pageResource(c.Rules), public+signedInPath)
	if err != nil {
		l.record(r, audit.Event{Action: audit.LogIn, Outcome: audit.Failed, Target: at.URL, Reason: err.Error()})
		l.ask(w, c, http.StatusBadGateway, "The login can't begin: "+cleaned.Text(err.Error()))
		return
	}
	l.setBrowser(w, r, c, browser, int(signInTime.Seconds()))
	// A page and not a redirect: browsers let a form of ours redirect to us only (form-action).
	answerLogin(w, c, http.StatusOK, loginAnswer{Title: "Logging in …", Text: "The login continues at " + hostOf(at.URL) + ".", Next: next})
}

// complete takes the redirect that comes back from a login at an issuer.
func (l *login) complete(w http.ResponseWriter, r *http.Request, c *Sender) *Denial {
	refuse := func(status int, outcome, why string) {
		l.refuse(w, r, c, status, audit.Event{Outcome: outcome, Reason: why})
	}
	query, cookie := r.URL.RawQuery, ""
	switch begun, err := r.Cookie(cookieName(l.Port, c.Rules) + begunSuffix); {
	case r.Method != http.MethodGet:
		return notGet(w, r)
	case len(query) > maxCallback:
		refuse(http.StatusRequestURITooLong, audit.Refused, "The redirect of the issuer is too long.")
		return nil
	case err == nil:
		cookie = begun.Value
	}
	l.setBrowser(w, r, c, "", -1)
	values, err := url.ParseQuery(query)
	if err != nil {
		refuse(http.StatusBadRequest, audit.Refused, "The redirect of the issuer can't be read.")
		return nil
	}
	// The code works once: a browser that leaves now must not lose the login.
	ctx, cancel := l.bounded(context.WithoutCancel(r.Context()), callbackTime)
	defer cancel()
	tokens, err := l.signIns.complete(ctx, cookie, values)
	switch {
	case err == errNoSignIn:
		refuse(http.StatusBadRequest, audit.Refused, sentence(err))
	case err != nil:
		refuse(http.StatusBadRequest, audit.Failed, sentence(err))
	default:
		if status, e := l.judge(ctx, w, r, c, tokens); status != 0 {
			l.sessions.revoke(tokens)
			l.refuse(w, r, c, status, e)
		}
	}
	return nil
}

// judge lets the browser in if its user is an administrator, or if users have accounts. If not, it returns the status of
// the answer and an event for the audit log.
func (l *login) judge(ctx context.Context, w http.ResponseWriter, r *http.Request, c *Sender, tokens *signIn) (status int, e audit.Event) {
	e = audit.Event{Outcome: audit.Refused, Target: tokens.issuer}
	proof, g, err := c.Rules.prove(ctx, tokens.token.Access, pageResource(c.Rules))
	refusal, refused := errors.AsType[*clientauth.Refusal](err)
	switch {
	case refused:
		e.Reason = "The router does not accept the token of the issuer: " + cleaned.Text(refusal.Reason) + "."
		if len(refusal.Scopes) > 0 {
			e.Reason += " The issuer has to grant: " + strings.Join(refusal.Scopes, ", ") + "."
		}
		return http.StatusForbidden, e
	case err != nil:
		e.Outcome, e.Reason = audit.Failed, "The token of the issuer can't be checked now: "+cleaned.Text(err.Error())
		return http.StatusServiceUnavailable, e
	}
	e.Principal = proof.Principal.Name
	switch {
	case g.Context.Err() != nil || proof.Issuer != tokens.issuer:
		e.Reason = "The configuration of the issuer was edited meanwhile."
		return http.StatusForbidden, e
	case !proof.Principal.Admin && !hasAccounts(l):
		i := c.Rules.issuers[proof.Issuer]
		e.Reason = fmt.Sprintf(`%s may use tools, but not this page. An administrator has one of the claims in "admins" of the issuer's entry (%s), and one of the scopes %s.`,
			cleaned.Text(e.Principal), strings.Join(i.Admins, ", "), strings.Join(i.Admin, ", "))
		return http.StatusForbidden, e
	}
	s := l.sessions.begin(g, Hostname(r.RemoteAddr), tokens)
	l.letIn(w, r, c, s)
	e.Outcome = audit.OK
	l.record(r, e)
	answerLogin(w, c, http.StatusOK, loginAnswer{Title: "Logged in as " + cleaned.Text(e.Principal), Text: "The router's page opens at once.", Next: c.Rules.At(homeOf(proof.Principal))})
	return 0, e
}

// refuse says why a login at an issuer has failed, and keeps it in the audit log.
func (l *login) refuse(w http.ResponseWriter, r *http.Request, c *Sender, status int, e audit.Event) {
	l.record(r, e)
	answerLogin(w, c, status, loginAnswer{Title: "Not logged in", Wrong: true, Text: e.Reason, Again: true})
}

// record keeps an event of the browser in the audit log. Anyone can send a request that is refused.
func (l *login) record(r *http.Request, e audit.Event) {
	e.Action, e.From = cmp.Or(e.Action, audit.LogIn), Hostname(r.RemoteAddr)
	if e.Outcome == audit.OK {
		l.Audit.Record(e)
		return
	}
	e.From = clientauth.Network(r.RemoteAddr)
	l.trail.refused(e)
}

// tooMany refuses one who tries too often.
func (l *login) tooMany(w http.ResponseWriter, c *Sender, wait time.Duration) {
	seconds := strconv.Itoa(secondsOf(wait))
	w.Header().Set("Retry-After", seconds)
	l.ask(w, c, http.StatusTooManyRequests, "There were too many tries. Try again in "+seconds+" s.")
}

// setBrowser sets the cookie of a browser with a login under way, for so many seconds; -1 deletes it. It comes back with the redirect
// of another site, which a strict cookie does not.
func (l *login) setBrowser(w http.ResponseWriter, r *http.Request, c *Sender, value string, seconds int) {
	setCookie(w, cookieName(l.Port, c.Rules)+begunSuffix, value, seconds, http.SameSiteLaxMode, isSecure(r, c.Rules, true))
}

// isSecure reports whether the browser reaches us by https, perhaps through a proxy. atPublic says
// that it has come by the public URL: not every proxy leaves the Host as it was, but most say then
// how they were reached. A client that lies with that harms itself only.
func isSecure(r *http.Request, rules *Rules, atPublic bool) bool {
	if r.TLS != nil {
		return true
	}
	public := oauth.Origin(rules.PublicURL)
	if !strings.HasPrefix(public, "https://") {
		return false
	}
	return atPublic || oauth.Origin("https://"+r.Host) == public ||
		r.Header.Get("Origin") == public || strings.EqualFold(r.Header.Get("X-Forwarded-Proto"), "https")
}

// hostOf returns the host of an issuer, as the page names it.
func hostOf(issuer string) string {
	_, host, _ := strings.Cut(oauth.Origin(issuer), "://")
	return host
}

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

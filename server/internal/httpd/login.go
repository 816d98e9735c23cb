package httpd

import (
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"html/template"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/internal/audit"
	"github.com/mcp-metarouter/metarouter/internal/rate"
	"github.com/mcp-metarouter/metarouter/internal/signin"
	"github.com/mcp-metarouter/metarouter/server/internal/conversation"
)

// Browsers send no token: a person types it in once, or logs in at an issuer, and gets a cookie
// that opens the pages, and nothing else.

const (
	loginPath  = "/login"
	logoutPath = "/logout"
	maxLogin   = 4 << 10 // bytes of a login

	// triesPerMinute is how often one address may try to log in.
	triesPerMinute = 5
)

//go:embed login.html
var loginText string

// loginPage asks for the token, or where to log in.
var loginPage = sync.OnceValue(func() *template.Template { return template.Must(template.New("login").Parse(loginText)) })

// A login lets browsers see the pages, by a cookie for a token.
type login struct {
	port     string                      // that the router listens on
	tries    *rate.Limiter               // of each address, with tokens
	begins   *rate.Limiter               // of each address, at issuers
	foreign  *http.CrossOriginProtection // against the pages of others
	signins  signin.Logins               // at issuers, under way
	sessions browserSessions
	audited  *audited // records refusals
}

// newLogin returns the login of a handler with the options.
func newLogin(o Options, audited *audited, log *zap.Logger) *login {
	_, port, _ := net.SplitHostPort(o.Bound)
	return &login{
		port:  port,
		tries: rate.New(triesPerMinute/60.0, triesPerMinute), begins: rate.New(beginsPerMinute/60.0, beginsPerMinute),
		foreign: http.NewCrossOriginProtection(), audited: audited,
		sessions: browserSessions{authenticator: o.Authenticator, audit: o.Audit, work: audited.work, log: log.Named("login")},
	}
}

// cookie returns the name of the cookie. Browsers send cookies to all ports of a host, and to all
// paths of a proxy, where other routers may be.
func (l *login) cookie(r *rules) string {
	name := "metarouter_login_" + l.port
	if r.prefix != "" {
		sum := sha256.Sum256([]byte(r.prefix))
		name += "_" + hex.EncodeToString(sum[:4])
	}
	return name
}

// identify returns the session of a browser that asks for a page, by its cookie, and its grant; nil
// if there is none, or it has ended. The error says that this can't be said now.
func (l *login) identify(rules *rules, r *http.Request) (*browserSession, *grant, error) {
	cookie, err := r.Cookie(l.cookie(rules))
	if err != nil {
		return nil, nil, nil
	}
	s := l.sessions.get(cookie.Value)
	if s == nil {
		return nil, nil, nil
	}
	if !s.fits(rules) {
		l.sessions.expire(s, errEdited.Error())
		return nil, nil, nil
	}
	g, err := s.use(r.Context())
	switch {
	case err != nil && r.URL.Path == logoutPath:
		return s, s.last(), nil // a browser may always log out
	case err != nil && strings.HasPrefix(r.URL.Path, loginPath): // or log in by another way
		return nil, nil, nil
	case err != nil || g == nil:
		return nil, nil, err
	}
	return s, g, nil
}

// browsers answer what only browsers ask: logins, here and at remote servers.
type browsers struct {
	login    *login
	callback *callback
	pages    bool // there are pages
	next     http.Handler
}

// isForBrowsers reports whether browsers ask for what is there, with a cookie.
func (t target) isForBrowsers() bool {
	return t.route == routePage || t.route == routeLogin || t.route == routeCallback
}

// ServeHTTP implements [http.Handler].
func (h *browsers) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q := requestOf(r)
	in := q.client.isIn()
	switch {
	case !in && q.client.wrong != nil && !isRefused(q.client.wrong): // a login would not help
		refuseUnknown(w, r)
	case q.target.route == routeCallback:
		h.callback.ServeHTTP(w, r)
	case !h.pages || !q.target.isForBrowsers() || !h.login.serve(w, r, in):
		h.next.ServeHTTP(w, r)
	}
}

// serve answers a browser that has not logged in, logs it in by a token or at an issuer, and ends
// a login. It reports false if the request is to be served otherwise: in says whether the client
// has proved who it is.
func (l *login) serve(w http.ResponseWriter, r *http.Request, in bool) bool {
	q := requestOf(r)
	_, html := accepts(r, "text/html")
	path, post := r.URL.Path, r.Method == http.MethodPost
	switch {
	case path == signedInPath && len(l.signIns(q.rules)) > 0:
		l.complete(w, r) // also if the browser is logged in: by another login
	case path == logoutPath && post && in:
		l.out(w, r)
	case in && (path != loginPath && path != signInPath || q.rules.access.public):
		return false
	case in:
		http.Redirect(w, r, q.rules.at("/"), http.StatusSeeOther)
	case path == loginPath && post:
		l.try(w, r)
	case path == signInPath && post:
		l.begin(w, r)
	case !html || !isRead(r):
		return false
	default:
		l.ask(w, r, http.StatusUnauthorized, "")
	}
	return true
}

// try takes a token from the page that asks for it. A browser names the page in Origin.
func (l *login) try(w http.ResponseWriter, r *http.Request) {
	q := requestOf(r)
	if r.Header.Get("Origin") == "" || l.foreign.Check(r) != nil {
		l.ask(w, r, http.StatusForbidden, "Only this page may send a token. Send it again.")
		return
	}
	if wait := l.tries.Take(network(r.RemoteAddr), 1, 1); wait > 0 {
		l.tooMany(w, r, wait)
		return
	}
	r.Body = http.MaxBytesReader(responseOf(w).ResponseWriter, r.Body, maxLogin)
	who, ok := q.rules.access.holder(r.PostFormValue("token"))
	e := audit.Event{Outcome: audit.Refused, Principal: who.Name}
	switch {
	case !ok:
		e.Reason = "That is none of its tokens."
		l.ask(w, r, http.StatusUnauthorized, e.Reason)
	case !who.Admin:
		e.Reason = "That token may use tools, but not this page. Send a token of the role admin."
		l.ask(w, r, http.StatusForbidden, e.Reason)
	default:
		e.Outcome = audit.OK
		l.letIn(w, r, l.sessions.begin(q.rules.grants[who], issued{}))
		http.Redirect(w, r, q.rules.at("/"), http.StatusSeeOther)
	}
	l.record(r, e)
}

var errForeignLogout = conversation.InvalidRequest("only the router's own dashboard may log out, with the Content-Type application/json")

// letIn gives the browser a cookie.
func (l *login) letIn(w http.ResponseWriter, r *http.Request, s *browserSession) {
	left := min(loginIdle, time.Until(s.end()))
	l.setCookie(w, r, s.id, int(left.Seconds()), isSecure(r, s.issuer != ""))
}

// setCookie sets the cookie for so many seconds; -1 deletes it.
func (l *login) setCookie(w http.ResponseWriter, r *http.Request, value string, seconds int, secure bool) {
	q := requestOf(r)
	http.SetCookie(w, &http.Cookie{
		Name: l.cookie(q.rules), Value: value, Path: "/", MaxAge: seconds,
		HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: secure,
	})
}

// out ends the login of the browser, if a page of ours asks for that as it asks for other
// actions.
func (l *login) out(w http.ResponseWriter, r *http.Request) {
	q := requestOf(r)
	if l.foreign.Check(r) != nil || r.Header.Get("Content-Type") != "application/json" {
		refuse(w, r, http.StatusForbidden, nil, errForeignLogout)
		return
	}
	if s := q.client.session; s != nil { // else a program with a token, whose login nothing ends
		l.sessions.logOut(s)
		l.record(r, audit.Event{Action: audit.LogOut, Outcome: audit.OK, Principal: q.client.principal.Name, Target: s.issuer})
	}
	l.setCookie(w, r, "", -1, false)
	w.WriteHeader(http.StatusNoContent)
}

// A loginOffer is what loginPage says.
type loginOffer struct {
	Try, Begin string // where its forms go
	Problem    string // of the last try
	Token      bool   // there are tokens to type in
	Issuers    []offeredIssuer
}

// An offeredIssuer is a button.
type offeredIssuer struct{ URL, Host string }

// ask shows the page that asks for a token or where to log in, with the problem of the last try.
func (l *login) ask(w http.ResponseWriter, r *http.Request, status int, problem string) {
	q := requestOf(r)
	offer := loginOffer{Try: q.rules.at(loginPath), Begin: q.rules.at(signInPath), Problem: problem}
	for _, i := range l.signIns(q.rules) {
		offer.Issuers = append(offer.Issuers, offeredIssuer{i.URL, hostOf(i.URL)})
	}
	offer.Token = len(offer.Issuers) == 0 || slices.ContainsFunc(q.rules.access.known, func(p Principal) bool { return p.Admin && p.Hash != "" })
	challenge(w, r, "", "", q.scopesToAsk())
	writePage(w, status, loginPage(), offer, "'self'", "same-origin") // without a referrer, no Origin would be sent with the token
}

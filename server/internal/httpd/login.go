package httpd

import (
	"bytes"
	"context"
	"crypto/hmac"
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
	secret  []byte                      // signs the cookies
	port    string                      // that the router listens on
	tries   *rate.Limiter               // of each address, with tokens
	begins  *rate.Limiter               // of each address, at issuers
	foreign *http.CrossOriginProtection // against the pages of others
	logouts logouts
	signins signin.Logins // at issuers, under way
	sso     ssoSessions
}

// newLogin returns the login of a handler with the options.
func newLogin(o Options, secret []byte, w *work, log *zap.Logger) *login {
	_, port, _ := net.SplitHostPort(o.Bound)
	return &login{
		secret: secret, port: port,
		tries: rate.New(triesPerMinute/60.0, triesPerMinute), begins: rate.New(beginsPerMinute/60.0, beginsPerMinute),
		foreign: http.NewCrossOriginProtection(),
		sso:     ssoSessions{authenticator: o.Authenticator, audit: o.Audit, work: w, log: log.Named("login")},
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

// identify returns the login that the cookie of a browser's page belongs to; nil if there is none,
// or it has ended. The error says that this can't be said now.
func (l *login) identify(rules *rules, r *http.Request) (*stay, error) {
	cookie, err := r.Cookie(l.cookie(rules))
	if err != nil {
		return nil, nil
	}
	s, ok := parseStay(cookie.Value)
	if !ok || !s.lasts(time.Now()) || l.logouts.has(s) {
		return nil, nil
	}
	if s.sso = l.sso.get(s.id); s.sso != nil {
		if !hmac.Equal([]byte(cookie.Value), []byte(s.signed(l.secret, s.sso.hash))) {
			return nil, nil
		}
		if !s.sso.fits(rules) {
			l.sso.expire(s.sso, errEdited.Error())
			return nil, nil
		}
		switch s.grant, err = s.sso.use(r.Context()); {
		case err != nil && r.URL.Path == logoutPath:
			s.grant = s.sso.last() // a browser may always log out
		case err != nil && strings.HasPrefix(r.URL.Path, loginPath): // or log in by another way
			return nil, nil
		case err != nil || s.grant == nil:
			return nil, err
		}
		return &s, nil
	}
	for _, known := range rules.access.known {
		if known.Admin && known.Hash != "" && hmac.Equal([]byte(cookie.Value), []byte(s.signed(l.secret, known.Hash))) {
			s.grant = rules.grants[known]
			if s.begun.Before(s.grant.since) { // the token was removed meanwhile, and came back
				return nil, nil
			}
			return &s, nil
		}
	}
	return nil, nil
}

// serve answers a browser that has not logged in, logs it in by a token or at an issuer, and ends
// a login. It reports false if the request is to be served otherwise: in says whether the client
// has proved who it is.
func (l *login) serve(x *exchange, in bool) bool {
	_, html := accepts(x.r, "text/html")
	path, post := x.r.URL.Path, x.r.Method == http.MethodPost
	switch {
	case path == signedInPath && len(l.signIns(x.rules)) > 0:
		l.complete(x) // also if the browser is logged in: by another login
	case path == logoutPath && post && in:
		l.out(x)
	case in && (path != loginPath && path != signInPath || x.rules.public()):
		return false
	case in:
		http.Redirect(x.w, x.r, x.at("/"), http.StatusSeeOther)
	case path == loginPath && post:
		l.try(x)
	case path == signInPath && post:
		l.begin(x)
	case !html || !x.isRead():
		return false
	default:
		l.ask(x, http.StatusUnauthorized, "")
	}
	return true
}

// try takes a token from the page that asks for it. A browser names the page in Origin.
func (l *login) try(x *exchange) {
	if x.r.Header.Get("Origin") == "" || l.foreign.Check(x.r) != nil {
		l.ask(x, http.StatusForbidden, "Only this page may send a token. Send it again.")
		return
	}
	if wait := l.tries.Take(network(x.r.RemoteAddr), 1, 1); wait > 0 {
		l.tooMany(x, wait)
		return
	}
	x.r.Body = http.MaxBytesReader(x.w, x.r.Body, maxLogin)
	who, ok := x.rules.access.holder(x.r.PostFormValue("token"))
	e := audit.Event{Outcome: audit.Refused, Principal: who.Name}
	switch {
	case !ok:
		e.Reason = "That is none of its tokens."
		l.ask(x, http.StatusUnauthorized, e.Reason)
	case !who.Admin:
		e.Reason = "That token may use tools, but not this page. Send a token of the role admin."
		l.ask(x, http.StatusForbidden, e.Reason)
	default:
		e.Outcome = audit.OK
		l.letIn(x, who.Hash, newStay(time.Now()))
		http.Redirect(x.w, x.r, x.at("/"), http.StatusSeeOther)
	}
	l.record(x, e)
}

// letIn gives the browser a cookie.
func (l *login) letIn(x *exchange, token string, s stay) {
	left := min(loginIdle, time.Until(s.end()))
	l.setCookie(x, s.signed(l.secret, token), int(left.Seconds()), isSecure(x, s.sso != nil))
}

// setCookie sets the cookie for so many seconds; -1 deletes it.
func (l *login) setCookie(x *exchange, value string, seconds int, secure bool) {
	http.SetCookie(x.w, &http.Cookie{
		Name: l.cookie(x.rules), Value: value, Path: "/", MaxAge: seconds,
		HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: secure,
	})
}

// renew gives the browser a new cookie if its cookie has become old.
func (l *login) renew(x *exchange) {
	if now := time.Now(); now.Sub(x.stay.renewed) >= renewAfter {
		s := *x.stay
		s.renewed = now
		l.letIn(x, x.principal.Hash, s)
	}
}

// out ends the login of the browser, if a page of ours asks for that as it asks for other
// actions.
func (l *login) out(x *exchange) {
	if l.foreign.Check(x.r) != nil || x.r.Header.Get("Content-Type") != "application/json" {
		x.refuse(http.StatusForbidden, nil, errForeignLogout)
		return
	}
	if x.stay != nil { // else a program with a token, whose login nothing ends
		e := audit.Event{Action: audit.LogOut, Outcome: audit.OK, Principal: x.principal.Name}
		if x.stay.sso != nil {
			e.Target = x.stay.sso.issuer
			l.sso.logOut(x.stay.sso)
		} else {
			l.logouts.add(*x.stay, time.Now())
		}
		l.record(x, e)
	}
	l.setCookie(x, "", -1, false)
	x.w.WriteHeader(http.StatusNoContent)
}

// during returns a context for a page's request, which ends with the login of the browser and
// after a while by itself.
func (l *login) during(ctx context.Context, s stay) (context.Context, context.CancelFunc) {
	until := time.Now().Add(pageTime)
	if end := s.end(); end.Before(until) {
		until = end
	}
	ctx, cancel := context.WithDeadline(ctx, until)
	stop := func() {}
	if s.sso == nil {
		stop = l.logouts.follow(s, cancel)
	} else {
		followed := make(chan struct{})
		go func() {
			defer close(followed)
			s.sso.follow(ctx, cancel)
		}()
		stop = func() { <-followed }
	}
	return ctx, func() {
		cancel()
		stop()
	}
}

// loggedIn is the key of contexts of a browser's requests.
type loggedIn struct{}

// LoggedIn reports whether the request to a page comes from a browser that has logged in.
func LoggedIn(ctx context.Context) bool { return ctx.Value(loggedIn{}) != nil }

// visitor is the key of the principal in contexts of requests to pages.
type visitor struct{}

// PrincipalOf returns who sends the request to a page.
func PrincipalOf(ctx context.Context) Principal {
	who, _ := ctx.Value(visitor{}).(Principal)
	return who
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
func (l *login) ask(x *exchange, status int, problem string) {
	offer := loginOffer{Try: x.at(loginPath), Begin: x.at(signInPath), Problem: problem}
	for _, i := range l.signIns(x.rules) {
		offer.Issuers = append(offer.Issuers, offeredIssuer{i.URL, hostOf(i.URL)})
	}
	offer.Token = len(offer.Issuers) == 0 || slices.ContainsFunc(x.rules.access.known, func(p Principal) bool { return p.Admin && p.Hash != "" })
	var page bytes.Buffer
	if err := loginPage().Execute(&page, offer); err != nil {
		panic(err) // the page is a part of the program
	}
	h := x.w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; img-src data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "same-origin") // without any, no Origin would be sent with the token
	h.Set("Cache-Control", "no-store")
	x.challenge("", "", x.scopesToAsk())
	x.w.WriteHeader(status)
	x.write(page.Bytes())
}

package httpd

import (
	"bytes"
	"context"
	"crypto/hmac"
	_ "embed"
	"math"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/rate"
)

// Browsers send no token: a person types it in once and gets a cookie that opens the
// pages, and nothing else.

const (
	loginPath  = "/login"
	logoutPath = "/logout"
	maxLogin   = 4 << 10 // bytes of a login

	// triesPerMinute is how often one address may try to log in.
	triesPerMinute = 5
)

// loginPage asks for the token.
//
//go:embed login.html
var loginPage []byte

// A login lets browsers see the pages, by a cookie for a token.
type login struct {
	secret  []byte                      // signs the cookies
	cookie  string                      // name of the cookie
	tries   *rate.Limiter               // of each address
	foreign *http.CrossOriginProtection // against the pages of others
	logouts logouts
}

// newLogin returns the login of a handler that is bound to the address. Browsers send
// cookies to all ports of a host, where other routers may be.
func newLogin(bound string, secret []byte) *login {
	_, port, _ := net.SplitHostPort(bound)
	return &login{
		secret: secret, cookie: "metarouter_login_" + port,
		tries: rate.New(triesPerMinute/60.0, triesPerMinute), foreign: http.NewCrossOriginProtection(),
	}
}

// identify returns the login that the cookie of a browser's page belongs to; nil if there is none,
// or it has ended. The error says that this can't be said now.
func (l *login) identify(rules *rules, r *http.Request) (*stay, error) {
	cookie, err := r.Cookie(l.cookie)
	if err != nil {
		return nil, nil
	}
	s, ok := parseStay(cookie.Value)
	if !ok || !s.lasts(time.Now()) || l.logouts.has(s) {
		return nil, nil
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

// serve answers a browser that has not logged in, takes the token that a person types in, and
// ends a login. It reports false if the request is to be served otherwise: in says whether the
// client has proved who it is.
func (l *login) serve(x *exchange, in bool) bool {
	_, html := accepts(x.r, "text/html")
	switch {
	case x.r.URL.Path == logoutPath && x.r.Method == http.MethodPost && in:
		l.out(x)
		return true
	case in && (x.r.URL.Path != loginPath || x.rules.public()):
		return false
	case in:
		http.Redirect(x.w, x.r, "/", http.StatusSeeOther)
		return true
	case x.r.URL.Path == loginPath && x.r.Method == http.MethodPost:
		l.try(x)
		return true
	case !html || !x.isRead():
		return false
	}
	askForToken(x, http.StatusUnauthorized, "")
	return true
}

// try takes a token from the page that asks for it. A browser names the page in Origin.
func (l *login) try(x *exchange) {
	if x.r.Header.Get("Origin") == "" || l.foreign.Check(x.r) != nil {
		askForToken(x, http.StatusForbidden, "Only this page may send a token. Send it again.")
		return
	}
	if wait := l.tries.Take(network(x.r.RemoteAddr), 1, 1); wait > 0 {
		seconds := strconv.Itoa(int(math.Ceil(wait.Seconds())))
		x.w.Header().Set("Retry-After", seconds)
		askForToken(x, http.StatusTooManyRequests, "There were too many tries. Try again in "+seconds+" s.")
		return
	}
	x.r.Body = http.MaxBytesReader(x.w, x.r.Body, maxLogin)
	who, ok := x.rules.access.holder(x.r.PostFormValue("token"))
	switch {
	case !ok:
		askForToken(x, http.StatusUnauthorized, "That is none of its tokens.")
	case !who.Admin:
		askForToken(x, http.StatusForbidden, "That token may use tools, but not this page. Send a token of the role admin.")
	default:
		l.letIn(x, who.Hash, newStay(time.Now()))
		http.Redirect(x.w, x.r, "/", http.StatusSeeOther)
	}
}

// letIn gives the browser a cookie.
func (l *login) letIn(x *exchange, token string, s stay) {
	left := min(loginIdle, time.Until(s.end()))
	l.setCookie(x, s.signed(l.secret, token), int(left.Seconds()))
}

// setCookie sets the cookie for so many seconds; -1 deletes it.
func (l *login) setCookie(x *exchange, value string, seconds int) {
	http.SetCookie(x.w, &http.Cookie{
		Name: l.cookie, Value: value, Path: "/", MaxAge: seconds,
		HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: x.r.TLS != nil,
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
	if x.stay != nil {
		l.logouts.add(*x.stay, time.Now())
	}
	l.setCookie(x, "", -1)
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
	stop := l.logouts.follow(s, cancel)
	return ctx, func() {
		stop()
		cancel()
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

// askForToken shows the page that asks for a token, with the problem of the last try, which is
// HTML.
func askForToken(x *exchange, status int, problem string) {
	h := x.w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; img-src data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "same-origin") // without any, no Origin would be sent with the token
	h.Set("Cache-Control", "no-store")
	h.Set("WWW-Authenticate", "Bearer")
	x.w.WriteHeader(status)
	page := loginPage
	if problem != "" {
		page = bytes.Replace(page, []byte(" hidden>"), []byte(">"+problem), 1)
	}
	x.write(page)
}

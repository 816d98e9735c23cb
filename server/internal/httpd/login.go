package httpd

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"math"
	"net"
	"net/http"
	"strconv"
	"strings"
)

// Browsers send no token: a person types it in once and gets a cookie that opens the
// pages, and nothing else.

const (
	loginPath = "/login"
	loginTime = 12 * 60 * 60 // seconds that a login lasts, and no longer than the router
	maxLogin  = 4 << 10      // bytes of a login

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
	tries   *limiter                    // of each address
	foreign *http.CrossOriginProtection // against the pages of others
}

// newLogin returns the login of a handler that is bound to the address. Browsers send
// cookies to all ports of a host, where other routers may be.
func newLogin(bound string, secret []byte) *login {
	_, port, _ := net.SplitHostPort(bound)
	return &login{secret, "metarouter_login_" + port, newLimiter(triesPerMinute/60.0, triesPerMinute), http.NewCrossOriginProtection()}
}

// identify returns who sends the request, and whether that is proved well enough: by a
// token, or for a browser's page by a cookie.
func (l *login) identify(a access, r *http.Request, browser bool) (principal string, ok bool) {
	if principal, ok = a.identify(r); ok || !browser {
		return principal, ok
	}
	cookie, err := r.Cookie(l.cookie)
	if err != nil {
		return principal, false
	}
	for _, known := range a.tokens {
		if hmac.Equal([]byte(cookie.Value), []byte(l.sign(known))) {
			return hex.EncodeToString(known[:]), true
		}
	}
	return principal, false
}

// sign returns the value of the cookie for the token of that hash.
func (l *login) sign(token [sha256.Size]byte) string {
	mac := hmac.New(sha256.New, l.secret)
	mac.Write([]byte(loginPath))
	mac.Write(token[:])
	return hex.EncodeToString(mac.Sum(nil))
}

// serve answers a browser that has not logged in, and takes the token that a person
// types in. It reports false if the request is to be served otherwise: in says
// whether the client has proved who it is.
func (l *login) serve(x *exchange, in bool) bool {
	_, html := accepts(x.r, "text/html")
	switch {
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
	if wait := l.tries.take(network(x.r.RemoteAddr), 1, 1); wait > 0 {
		seconds := strconv.Itoa(int(math.Ceil(wait.Seconds())))
		x.w.Header().Set("Retry-After", seconds)
		askForToken(x, http.StatusTooManyRequests, "There were too many tries. Try again in "+seconds+" s.")
		return
	}
	x.r.Body = http.MaxBytesReader(x.w, x.r.Body, maxLogin)
	bearer := x.r.Clone(x.r.Context())
	bearer.Header.Set("Authorization", "Bearer "+x.r.PostFormValue("token"))
	if _, ok := x.rules.access.identify(bearer); !ok {
		askForToken(x, http.StatusUnauthorized, "That is none of its tokens.")
		return
	}
	l.letIn(x, sha256.Sum256([]byte(strings.TrimSpace(x.r.PostFormValue("token")))))
}

// letIn gives the browser a cookie, and shows it the page.
func (l *login) letIn(x *exchange, token [sha256.Size]byte) {
	http.SetCookie(x.w, &http.Cookie{
		Name: l.cookie, Value: l.sign(token), Path: "/", MaxAge: loginTime,
		HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: x.r.TLS != nil,
	})
	http.Redirect(x.w, x.r, "/", http.StatusSeeOther)
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

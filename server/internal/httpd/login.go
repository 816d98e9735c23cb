package httpd

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"net"
	"net/http"
	"strings"
)

// Browsers send no token: a person types it in once and gets a cookie that opens the
// pages, and nothing else.

const (
	loginPath = "/login"
	loginTime = 12 * 60 * 60 // seconds that a login lasts, and no longer than the router
	maxLogin  = 4 << 10      // bytes of a login
)

// loginPage asks for the token.
//
//go:embed login.html
var loginPage []byte

// A login lets browsers see the pages, by a cookie for a token.
type login struct {
	secret []byte // signs the cookies
	cookie string // name of the cookie
}

// newLogin returns the login of a handler that is bound to the address. Browsers send
// cookies to all ports of a host, where other routers may be.
func newLogin(bound string, secret []byte) *login {
	_, port, _ := net.SplitHostPort(bound)
	return &login{secret, "metarouter_login_" + port}
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
	wrong := false
	switch {
	case in && (x.r.URL.Path != loginPath || x.rules.public()):
		return false
	case in:
		http.Redirect(x.w, x.r, "/", http.StatusSeeOther)
		return true
	case x.r.URL.Path == loginPath && x.r.Method == http.MethodPost:
		x.r.Body = http.MaxBytesReader(x.w, x.r.Body, maxLogin)
		bearer := x.r.Clone(x.r.Context())
		bearer.Header.Set("Authorization", "Bearer "+x.r.PostFormValue("token"))
		if _, ok := x.rules.access.identify(bearer); ok {
			l.letIn(x, sha256.Sum256([]byte(strings.TrimSpace(x.r.PostFormValue("token")))))
			return true
		}
		wrong = true
	case !html || !x.isRead():
		return false
	}
	askForToken(x, wrong)
	return true
}

// letIn gives the browser a cookie, and shows it the page.
func (l *login) letIn(x *exchange, token [sha256.Size]byte) {
	http.SetCookie(x.w, &http.Cookie{
		Name: l.cookie, Value: l.sign(token), Path: "/", MaxAge: loginTime,
		HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: x.r.TLS != nil,
	})
	http.Redirect(x.w, x.r, "/", http.StatusSeeOther)
}

// askForToken shows the page that asks for a token, and whether the last token was
// wrong.
func askForToken(x *exchange, wrong bool) {
	h := x.w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; img-src data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "same-origin") // without any, no Origin would be sent with the token
	h.Set("Cache-Control", "no-store")
	h.Set("WWW-Authenticate", "Bearer")
	x.w.WriteHeader(http.StatusUnauthorized)
	if wrong {
		x.write(bytes.Replace(loginPage, []byte(" hidden"), nil, 1))
		return
	}
	x.write(loginPage)
}

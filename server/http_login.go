package server

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

// Browsers bear no token: a person types it in once, and gets a cookie that opens the
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

// loginCookie is the cookie's name. Browsers send cookies to all ports of a host, where
// other routers may be.
func (h *Handler) loginCookie() string {
	_, port, _ := net.SplitHostPort(h.opts.Bound)
	return "metarouter_login_" + port
}

// asksForPage reports whether a browser asks for a page, or would log in for one.
func (x *exchange) asksForPage() bool {
	return x.r.URL.Path == loginPath && x.h.opts.Pages != nil || x.isPage()
}

// identify returns who sends the request, and whether that was said well enough: by a
// token, or for a page by a cookie.
func (x *exchange) identify() (principal string, ok bool) {
	if principal, ok = x.h.door.identify(x.r); ok || !x.asksForPage() {
		return principal, ok
	}
	cookie, err := x.r.Cookie(x.h.loginCookie())
	if err != nil {
		return principal, false
	}
	for _, known := range x.h.door.tokens {
		if hmac.Equal([]byte(cookie.Value), []byte(x.h.cookie(known))) {
			return hex.EncodeToString(known[:]), true
		}
	}
	return principal, false
}

// cookie returns what a browser gets for the token of that hash.
func (h *Handler) cookie(token [sha256.Size]byte) string {
	mac := hmac.New(sha256.New, h.server.secret)
	mac.Write([]byte(loginPath))
	mac.Write(token[:])
	return hex.EncodeToString(mac.Sum(nil))
}

// login answers who asks for a page without a token, and takes the one that is typed
// in. Who is in already is shown the page. It reports false if nothing of that is asked
// for.
func (x *exchange) login(in bool) bool {
	_, html := x.accepts("text/html")
	wrong := false
	switch {
	case in && (x.r.URL.Path != loginPath || x.h.opts.Pages == nil || len(x.h.door.tokens) == 0), !x.asksForPage():
		return false
	case in:
		http.Redirect(x.w, x.r, "/", http.StatusSeeOther)
		return true
	case x.r.URL.Path == loginPath && x.r.Method == http.MethodPost:
		x.r.Body = http.MaxBytesReader(x.w, x.r.Body, maxLogin)
		bearer := x.r.Clone(x.r.Context())
		bearer.Header.Set("Authorization", "Bearer "+x.r.PostFormValue("token"))
		if _, ok := x.h.door.identify(bearer); ok {
			x.admitBrowser(sha256.Sum256([]byte(strings.TrimSpace(x.r.PostFormValue("token")))))
			return true
		}
		wrong = true
	case !html || !x.reads():
		return false
	}
	x.askForToken(wrong)
	return true
}

// admitBrowser gives the browser a cookie, and shows it the page.
func (x *exchange) admitBrowser(token [sha256.Size]byte) {
	http.SetCookie(x.w, &http.Cookie{
		Name: x.h.loginCookie(), Value: x.h.cookie(token), Path: "/", MaxAge: loginTime,
		HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: x.r.TLS != nil,
	})
	http.Redirect(x.w, x.r, "/", http.StatusSeeOther)
}

// askForToken shows the page that does, and whether the one that was typed in is wrong.
func (x *exchange) askForToken(wrong bool) {
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

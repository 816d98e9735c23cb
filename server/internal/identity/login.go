package identity

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"slices"

	"github.com/mcp-metarouter/metarouter/internal/audit"
	"github.com/mcp-metarouter/metarouter/internal/clientauth"
	"github.com/mcp-metarouter/metarouter/internal/rate"
	"github.com/mcp-metarouter/metarouter/server/internal/conversation"
)

// Browsers send no token: a person types it in once, or logs in at an issuer, and gets a cookie
// that opens the pages, and nothing else.

const (
	loginPath  = "/login"
	logoutPath = "/logout"

	// MaxForm bounds the forms of logins and values, in bytes: a value has at most 4 KiB, and a form each of its bytes as three.
	MaxForm = 13 << 10

	// triesPerMinute is how often one address may try to log in.
	triesPerMinute = 5
)

// A login lets browsers see the pages, by a cookie for a token.
type login struct {
	*common
	tries    *rate.Limiter               // of each address, with tokens
	begins   *rate.Limiter               // of each address, at issuers
	foreign  *http.CrossOriginProtection // against the pages of others
	signIns  signIns                     // at issuers, under way
	sessions browserSessions
}

// cookieName returns the name of the cookie. Browsers send cookies to all ports of a host, and to all
// paths of a proxy, where other routers may be.
func cookieName(port string, r *Rules) string {
	name := "metarouter_login_" + port
	if r.Prefix != "" {
		name += fmt.Sprintf("_%.4x", sha256.Sum256([]byte(r.Prefix)))
	}
	return name
}

// bySession returns the session of a browser that asks for a page, by its cookie; nil if it does not exist or has ended.
func (l *login) bySession(r *http.Request, rules *Rules) *browserSession {
	cookie, err := r.Cookie(cookieName(l.Port, rules))
	if err != nil {
		return nil
	}
	return l.sessions.get(cookie.Value)
}

// IsLogin reports whether the path is one of logins on the page.
func IsLogin(path string) bool {
	return path == loginPath || path == logoutPath || path == signInPath || path == signedInPath || path == accountPath
}

// serve answers a browser that has not logged in, logs it in by a token or at an issuer, and ends
// a login.
func (l *login) serve(w http.ResponseWriter, r *http.Request, c *Sender, html bool) (served bool, d *Denial) {
	path, post, in := r.URL.Path, r.Method == http.MethodPost, c.IsIn()
	switch {
	case path == signedInPath && len(offered(c.Rules)) > 0:
		return true, l.complete(w, r, c) // also if the browser is logged in: by another login
	case path == logoutPath && post && in:
		return true, l.logOut(w, r, c)
	case in && path == accountPath && hasAccounts(l):
		return true, account(l, w, r, c)
	case in && (path != loginPath && path != signInPath || c.Rules.Public):
		return false, nil
	case in:
		http.Redirect(w, r, c.Rules.At(homeOf(c.Principal)), http.StatusSeeOther)
	case path == loginPath && post:
		l.try(w, r, c)
	case path == signInPath && post:
		l.begin(w, r, c)
	case !html || r.Method != http.MethodGet && r.Method != http.MethodHead:
		return false, nil
	default:
		l.ask(w, c, http.StatusUnauthorized, "")
	}
	return true, nil
}

// try takes a token from the page that asks for it. A browser names the page in Origin.
func (l *login) try(w http.ResponseWriter, r *http.Request, c *Sender) {
	if r.Header.Get("Origin") == "" || l.foreign.Check(r) != nil {
		l.ask(w, c, http.StatusForbidden, "Only this page may send a token. Send it again.")
		return
	}
	if wait := l.tries.Take(clientauth.Network(r.RemoteAddr), 1, 1); wait > 0 {
		l.tooMany(w, c, wait)
		return
	}
	who, ok := c.Rules.holder(r.PostFormValue("token"))
	e := audit.Event{Outcome: audit.Refused, Principal: who.Name}
	switch {
	case !ok:
		e.Reason = "That is none of its tokens."
		l.ask(w, c, http.StatusUnauthorized, e.Reason)
	case !who.Admin && !hasAccounts(l):
		e.Reason = "That token may use tools, but not this page. Send a token of the role admin."
		l.ask(w, c, http.StatusForbidden, e.Reason)
	default:
		e.Outcome = audit.OK
		l.letIn(w, r, c, l.sessions.begin(c.Rules.grants[who], Hostname(r.RemoteAddr), nil))
		http.Redirect(w, r, c.Rules.At(homeOf(who)), http.StatusSeeOther)
	}
	l.record(r, e)
}

// letIn gives the browser a cookie.
func (l *login) letIn(w http.ResponseWriter, r *http.Request, c *Sender, s *browserSession) {
	setCookie(w, cookieName(l.Port, c.Rules), s.id, int(loginLife.Seconds()), http.SameSiteStrictMode, isSecure(r, c.Rules, s.tokens != nil))
}

// setCookie sets a cookie for so many seconds; -1 deletes it.
func setCookie(w http.ResponseWriter, name, value string, seconds int, site http.SameSite, secure bool) {
	http.SetCookie(w, &http.Cookie{Name: name, Value: value, Path: "/", MaxAge: seconds, HttpOnly: true, SameSite: site, Secure: secure})
}

// logOut ends the login of the browser, if a page of ours asks for that as it asks for other
// actions.
func (l *login) logOut(w http.ResponseWriter, r *http.Request, c *Sender) *Denial {
	if l.foreign.Check(r) != nil || r.Header.Get("Content-Type") != "application/json" {
		err := conversation.InvalidRequest("only the router's own dashboard may log out, with the Content-Type application/json")
		return &Denial{Status: http.StatusForbidden, Err: err}
	}
	if s := c.session; s != nil { // else a program with a token, which has no login to end
		l.sessions.logOut(s)
		l.record(r, audit.Event{Action: audit.LogOut, Outcome: audit.OK, Principal: c.Principal.Name, Target: c.Grant.issuer})
	}
	setCookie(w, cookieName(l.Port, c.Rules), "", -1, http.SameSiteStrictMode, false)
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// A loginOffer is the content of login.html, which asks for the token, or where to log in.
type loginOffer struct {
	Try, Begin string          // where its forms go
	Problem    string          // of the last try
	Token      bool            // there are tokens to type in
	User       string          // who is logged in, and sees their account instead of the rest
	Values     map[string]bool // of the user, by name: whether it is set; the page never shows one
	Issuers    []offeredIssuer
}

// An offeredIssuer is a button.
type offeredIssuer struct{ URL, Host string }

// ask shows the page that asks for a token or where to log in, with the problem of the last try.
func (l *login) ask(w http.ResponseWriter, c *Sender, status int, problem string) {
	offer := loginOffer{Try: c.Rules.At(loginPath), Begin: c.Rules.At(signInPath), Problem: problem}
	for _, at := range offered(c.Rules) {
		offer.Issuers = append(offer.Issuers, offeredIssuer{at.URL, hostOf(at.URL)})
	}
	offer.Token = len(offer.Issuers) == 0 || slices.ContainsFunc(c.Rules.tokens, func(p clientauth.Principal) bool { return (p.Admin || hasAccounts(l)) && p.Hash != "" })
	w.Header().Set("WWW-Authenticate", c.Challenge())
	writePage(w, status, "login.html", offer, "'self'", "same-origin") // without a referrer, no Origin would be sent with the token
}

package httpd

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/audit"
	cleaned "github.com/mcp-metarouter/metarouter/internal/plain"
	"github.com/mcp-metarouter/metarouter/internal/signin"
)

const (
	signInPath   = loginPath + "/with"     // begins a login at an issuer
	signedInPath = loginPath + "/callback" // where it comes back

	// beginsPerMinute is how many logins at issuers one address may begin.
	beginsPerMinute = 20
)

// pageResource returns the resource for which the page's tokens are.
func pageResource(r *rules) string { return r.publicURL + "/mcp" }

// signIns returns the issuers at which people can log in to the page.
func (l *login) signIns(r *rules) (all []Issuer) {
	if r.publicURL == "" || l.sessions.authenticator == nil {
		return nil
	}
	for _, i := range r.options.Issuers {
		if i.URL != "" && i.ClientID != "" {
			all = append(all, i)
		}
	}
	return all
}

// begin sends a browser to an issuer, after a click on our own page.
func (l *login) begin(w http.ResponseWriter, r *http.Request) {
	q := requestOf(r)
	public := q.rules.publicURL
	ours, err := url.Parse(public)
	issuers := l.signIns(q.rules)
	if err != nil || len(issuers) == 0 {
		l.ask(w, r, http.StatusNotFound, "This router has no issuer to log in at. Load the page again.")
		return
	}
	if site := r.Header.Get("Sec-Fetch-Site"); r.Header.Get("Origin") != originOf(ours) || site != "" && site != "same-origin" {
		l.ask(w, r, http.StatusForbidden, "A login at an issuer begins and ends at "+public+". Open that page, and log in there.")
		return
	}
	if wait := l.begins.Take(network(r.RemoteAddr), 1, 1); wait > 0 {
		l.tooMany(w, r, wait)
		return
	}
	r.Body = http.MaxBytesReader(responseOf(w).ResponseWriter, r.Body, maxLogin)
	asked := r.PostFormValue("issuer")
	at := slices.IndexFunc(issuers, func(i Issuer) bool { return i.URL == asked })
	if at < 0 {
		l.ask(w, r, http.StatusBadRequest, "That is not an issuer of this router. Choose one of these.")
		return
	}
	i := issuers[at]
	ctx, cancel := l.bounded(r.Context())
	defer cancel()
	next, browser, err := l.signins.Begin(ctx, signin.Issuer{
		URL: i.URL, ClientID: i.ClientID, ClientSecret: i.ClientSecret, Audience: i.Audience, Scopes: slices.Concat(i.Admin, i.Call, i.Read),
	}, pageResource(q.rules), public+signedInPath)
	if err != nil {
		l.record(r, audit.Event{Action: audit.LogIn, Outcome: audit.Failed, Target: i.URL, Reason: err.Error()})
		l.ask(w, r, http.StatusBadGateway, "The login can't begin: "+cleaned.Text(err.Error()))
		return
	}
	l.setBrowser(w, r, browser, int(signin.Life.Seconds()))
	// A page and not a redirect: browsers let a form of ours redirect to us only (form-action).
	answerLogin(w, r, http.StatusOK, loginAnswer{Title: "Logging in …", Text: "The login continues at " + hostOf(i.URL) + ".", Next: next})
}

// complete takes what comes back from a login at an issuer.
func (l *login) complete(w http.ResponseWriter, r *http.Request) {
	query, cookie := r.URL.RawQuery, ""
	switch c, err := r.Cookie(l.browserCookie(r)); {
	case r.Method != http.MethodGet:
		notAllowed(w, r, http.MethodGet, r.URL.Path+" takes GET")
		return
	case len(query) > maxCallback:
		l.refuse(w, r, http.StatusRequestURITooLong, audit.Event{Outcome: audit.Refused, Reason: "The redirect of the issuer is too long."})
		return
	case err == nil:
		cookie = c.Value
	}
	l.setBrowser(w, r, "", -1)
	values, err := url.ParseQuery(query)
	if err != nil {
		l.refuse(w, r, http.StatusBadRequest, audit.Event{Outcome: audit.Refused, Reason: "The redirect of the issuer can't be read."})
		return
	}
	// The code works once: a browser that leaves now must not lose the login.
	ctx, cancel := l.bounded(context.WithoutCancel(r.Context()))
	defer cancel()
	tokens, err := l.signins.Complete(ctx, cookie, values)
	switch {
	case errors.Is(err, signin.ErrUnknown):
		l.refuse(w, r, http.StatusBadRequest, audit.Event{Outcome: audit.Refused, Reason: sentence(err)})
		return
	case err != nil:
		l.refuse(w, r, http.StatusBadRequest, audit.Event{Outcome: audit.Failed, Reason: sentence(err)})
		return
	}
	if status, e := l.judge(ctx, w, r, tokens); status != 0 {
		l.sessions.revoke(tokens)
		l.refuse(w, r, status, e)
	}
}

// judge lets the browser in if its user is an administrator. If not, it returns the status of
// the answer and what happened.
func (l *login) judge(ctx context.Context, w http.ResponseWriter, r *http.Request, tokens *signin.Session) (status int, e audit.Event) {
	q := requestOf(r)
	e = audit.Event{Outcome: audit.Refused, Target: tokens.Issuer}
	resource := pageResource(q.rules)
	proof, err := l.sessions.authenticator.Token(ctx, tokens.Access(), resource)
	refusal, refused := errors.AsType[*Refusal](err)
	switch {
	case refused:
		e.Reason = "The router does not accept the token of the issuer: " + cleaned.Text(refusal.Reason) + missing(refusal.Scopes)
		return http.StatusForbidden, e
	case err != nil:
		e.Outcome, e.Reason = audit.Failed, "The token of the issuer can't be checked now: "+cleaned.Text(err.Error())
		return http.StatusServiceUnavailable, e
	}
	e.Principal = proof.Principal.Name
	at := issued{hash: proof.Principal.Hash, issuer: tokens.Issuer, revision: proof.Revision, resource: resource, from: hostname(r.RemoteAddr), tokens: tokens}
	switch {
	case proof.Issuer != tokens.Issuer || !at.fits(q.current()): // now
		e.Reason = "The configuration of the issuer was edited meanwhile."
		return http.StatusForbidden, e
	case !proof.Principal.Admin:
		e.Reason = notAdmin(q.rules, proof)
		return http.StatusForbidden, e
	}
	at.judged(proof)
	s := l.sessions.begin(&grant{Principal: proof.Principal, issuer: at.issuer, ctx: context.Background()}, at)
	l.sessions.edited(q.current()) // an edit since then has not seen the session
	l.letIn(w, r, s)
	e.Outcome = audit.OK
	l.record(r, e)
	answerLogin(w, r, http.StatusOK, loginAnswer{Title: "Logged in as " + cleaned.Text(e.Principal), Text: "The router's page opens at once.", Next: q.rules.at("/")})
	return 0, e
}

// notAdmin says why a user whose token is good does not get to the page.
func notAdmin(r *rules, p Proof) string {
	i := r.issuers[p.Issuer]
	if i == nil {
		return errEdited.Error()
	}
	who := cleaned.Text(p.Principal.Name) + " may use tools, but not this page. "
	switch {
	case len(i.Admins) == 0:
		return who + `No user of this issuer may: the configuration has no "admins" for it.`
	case !hasScope(p.Scopes, i.Admin):
		return who + "The token lacks a scope" + missing(i.Admin[:min(1, len(i.Admin))]) +
			" An administrator also has one of these claims: " + strings.Join(i.Admins, ", ") + "."
	}
	return who + "An administrator has one of these claims, which the token does not have: " + strings.Join(i.Admins, ", ") + "."
}

// missing says which scopes a token needs.
func missing(scopes []string) string {
	if len(scopes) == 0 {
		return ""
	}
	return ". The issuer has to grant: " + strings.Join(scopes, ", ") + "."
}

// refuse says why a login at an issuer has failed, and keeps it in the audit log.
func (l *login) refuse(w http.ResponseWriter, r *http.Request, status int, e audit.Event) {
	e.Action = audit.LogIn
	l.record(r, e)
	answerLogin(w, r, status, loginAnswer{Title: "Not logged in", Wrong: true, Text: e.Reason, Again: true})
}

// record keeps an event of the browser in the audit log. Anyone can send what is refused.
func (l *login) record(r *http.Request, e audit.Event) {
	e.Action, e.From = cmp.Or(e.Action, audit.LogIn), hostname(r.RemoteAddr)
	if e.Outcome == audit.OK {
		l.sessions.audit.Record(e)
		return
	}
	e.From = network(r.RemoteAddr)
	l.audited.refused(e)
}

// tooMany refuses one who tries too often.
func (l *login) tooMany(w http.ResponseWriter, r *http.Request, wait time.Duration) {
	retryAfter(w, wait)
	l.ask(w, r, http.StatusTooManyRequests, "There were too many tries. Try again in "+w.Header().Get("Retry-After")+" s.")
}

// bounded returns a context for requests to issuers, which ends with the handler.
func (l *login) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(ctx, callbackTime)
	stop := context.AfterFunc(l.sessions.work.ctx, cancel)
	return ctx, func() {
		stop()
		cancel()
	}
}

// browserCookie returns the name of the cookie of a browser whose login is under way.
func (l *login) browserCookie(r *http.Request) string {
	return l.cookie(requestOf(r).rules) + "_begun"
}

// setBrowser sets that cookie for so many seconds; -1 deletes it. It comes back with the redirect
// of another site, which a strict cookie does not.
func (l *login) setBrowser(w http.ResponseWriter, r *http.Request, value string, seconds int) {
	http.SetCookie(w, &http.Cookie{
		Name: l.browserCookie(r), Value: value, Path: "/", MaxAge: seconds,
		HttpOnly: true, SameSite: http.SameSiteLaxMode, Secure: isSecure(r, true),
	})
}

// isSecure reports whether the browser reaches us by https, perhaps through a proxy. atPublic says
// that it has come by the public URL: not every proxy leaves the Host as it was, but most say then
// how they were reached. A client that lies with that harms itself only.
func isSecure(r *http.Request, atPublic bool) bool {
	q := requestOf(r)
	if r.TLS != nil {
		return true
	}
	ours, err := url.Parse(q.rules.publicURL)
	if err != nil || ours.Scheme != "https" {
		return false
	}
	public := originOf(ours)
	return atPublic || originOf(&url.URL{Scheme: "https", Host: r.Host}) == public ||
		r.Header.Get("Origin") == public || strings.EqualFold(r.Header.Get("X-Forwarded-Proto"), "https")
}

// originOf returns the origin of a URL as browsers write it.
func originOf(u *url.URL) string {
	host := strings.ToLower(u.Host)
	for scheme, port := range map[string]string{"http": ":80", "https": ":443"} {
		if u.Scheme == scheme {
			host = strings.TrimSuffix(host, port)
		}
	}
	return u.Scheme + "://" + host
}

// hostOf returns the host of an issuer, as the page names it.
func hostOf(issuer string) string {
	if u, err := url.Parse(issuer); err == nil && u.Host != "" {
		return u.Host
	}
	return issuer
}

// sentence returns an error as a sentence for a person.
func sentence(err error) string {
	text := cleaned.Text(err.Error())
	return "The login was not completed: " + strings.TrimSuffix(text, ".") + "."
}

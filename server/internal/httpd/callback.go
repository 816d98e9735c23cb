package httpd

import (
	"bytes"
	"context"
	_ "embed"
	"html/template"
	"net/http"
	"sync"
	"time"

	logins "github.com/mcp-metarouter/metarouter/internal/login"
	cleaned "github.com/mcp-metarouter/metarouter/internal/plain"
	"github.com/mcp-metarouter/metarouter/server/internal/conversation"
)

const (
	// continuedPath is the callback as a page of our own origin continues to it. Browsers do not
	// send the cookie, which is SameSite=Strict, with the redirect of an issuer.
	continuedPath = logins.CallbackPath + "/continue"

	// maxCallback bounds the query of a redirect, in bytes.
	maxCallback = 16 << 10

	// callbackTime bounds how long an issuer takes to redeem a code.
	callbackTime = time.Minute
)

// Logins take what comes back from logins at remote servers, as [logins.Logins] do.
type Logins interface {
	// Callback completes the login that the query of a redirect belongs to, for a browser with the
	// session of the principal by. The error says what a person reads.
	Callback(ctx context.Context, by, query string) (server string, err error)

	// Document returns the client ID metadata document (JSON), or nil if there is none.
	Document() []byte
}

//go:embed callback.html
var callbackText string

var callbackPage = sync.OnceValue(func() *template.Template { return template.Must(template.New("callback").Parse(callbackText)) })

// A loginAnswer is what callbackPage says.
type loginAnswer struct {
	Title, Text string
	Wrong       bool
	Next        string // the page that the browser opens by itself; "" for none
	Again       bool   // the person may log in again on the router's page
	Home        string // the router's page
}

// document answers with the client ID metadata document, which issuers read.
func (h *open) document(w http.ResponseWriter, r *http.Request) {
	var document []byte
	if h.logins != nil {
		document = h.logins.Document()
	}
	if document == nil {
		nothingThere(w, r)
		return
	}
	w.Header().Set("Cache-Control", "public, max-age=300")
	writeJSON(w, r, http.StatusOK, document)
}

// A callback completes logins at remote servers.
type callback struct {
	logins Logins // may be nil
	work   *work
}

// ServeHTTP implements [http.Handler].
func (h *callback) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q := requestOf(r)
	query, in := r.URL.RawQuery, q.client.isIn()
	switch {
	case h.logins == nil:
		nothingThere(w, r)
		return
	case r.Method != http.MethodGet:
		notAllowed(w, r, http.MethodGet, r.URL.Path+" takes GET")
		return
	case len(query) > maxCallback:
		refuse(w, r, http.StatusRequestURITooLong, nil, conversation.InvalidRequest("the query is too long"))
		return
	case in && !mayUse(w, r):
		return
	case !in && r.URL.Path != continuedPath:
		answerLogin(w, r, http.StatusOK, loginAnswer{Title: "Logging in …", Text: "The login continues at once.", Next: q.rules.at(continuedPath) + "?" + query})
		return
	case !in:
		answerLogin(w, r, http.StatusForbidden, loginAnswer{
			Title: "Not logged in", Wrong: true,
			Text: "This browser has no session with the router, so the login could not be completed. Open the router's page in this browser, type in the token of whoever began the login, and load this page again, or begin the login again.",
		})
		return
	}
	// The code works once: a browser that leaves now must not lose the login.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), callbackTime)
	defer cancel()
	defer context.AfterFunc(h.work.ctx, cancel)()
	server, err := h.logins.Callback(ctx, q.client.principal.Hash, query)
	if err != nil {
		answerLogin(w, r, http.StatusBadRequest, loginAnswer{Title: "Not logged in", Wrong: true, Text: cleaned.Text(err.Error())})
		return
	}
	answerLogin(w, r, http.StatusOK, loginAnswer{Title: "Logged in to " + cleaned.Text(server), Text: "All clients of the router can use the server now. You can close this page."})
}

// answerLogin shows a page about a login. Its URL has a code: no other site learns it as a referrer.
func answerLogin(w http.ResponseWriter, r *http.Request, status int, a loginAnswer) {
	a.Home = requestOf(r).rules.at("/")
	writePage(w, status, callbackPage(), a, "'none'", "no-referrer")
}

// writePage answers with a page about a login, which no one else may keep or frame. forms says where
// its forms may go, referrer what other pages learn of its URL.
func writePage(w http.ResponseWriter, status int, of *template.Template, says any, forms, referrer string) {
	var page bytes.Buffer
	if err := of.Execute(&page, says); err != nil {
		panic(err) // the page is a part of the program
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; img-src data:; form-action "+forms+"; base-uri 'none'; frame-ancestors 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", referrer)
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	w.Write(page.Bytes())
}

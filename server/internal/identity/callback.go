package identity

import (
	"bytes"
	"context"
	"embed"
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

//go:embed callback.html login.html
var files embed.FS

var pages = sync.OnceValue(func() *template.Template { return template.Must(template.ParseFS(files, "*.html")) })

// A loginAnswer is the text of callback.html.
type loginAnswer struct {
	Title, Text string
	Wrong       bool
	Next        string // the page that the browser opens by itself; may be ""
	Again       bool   // the person may log in again on the router's page
	Home        string // the router's page
}

// IsCallback reports whether logins at remote servers come back at the path.
func IsCallback(path string) bool { return path == logins.CallbackPath || path == continuedPath }

// callback completes a login at a remote server.
func (l *login) callback(w http.ResponseWriter, r *http.Request, c *Sender) *Denial {
	query, in := r.URL.RawQuery, c.IsIn()
	switch d := c.Forbidden(); {
	case r.Method != http.MethodGet:
		return notGet(w, r)
	case len(query) > maxCallback:
		return &Denial{Status: http.StatusRequestURITooLong, Err: conversation.InvalidRequest("the query is too long")}
	case in && d != nil && !hasAccounts(l): // users with accounts complete logins of their own
		return d
	case !in && r.URL.Path != continuedPath:
		answerLogin(w, c, http.StatusOK, loginAnswer{Title: "Logging in …", Text: "The login continues at once.", Next: c.Rules.At(continuedPath) + "?" + query})
		return nil
	case !in:
		answerLogin(w, c, http.StatusForbidden, loginAnswer{
			Title: "Not logged in", Wrong: true,
			Text: "This browser has no session with the router, so the login could not be completed. Open the router's page in this browser, log in there as whoever began the login, and load this page again, or begin the login again.",
		})
		return nil
	}
	// The code works once: a browser that leaves now must not lose the login.
	ctx, cancel := l.bounded(context.WithoutCancel(r.Context()), callbackTime)
	defer cancel()
	server, err := l.Logins.Callback(ctx, c.Principal.Hash, query)
	if err != nil {
		answerLogin(w, c, http.StatusBadRequest, loginAnswer{Title: "Not logged in", Wrong: true, Text: cleaned.Text(err.Error())})
		return nil
	}
	answerLogin(w, c, http.StatusOK, loginAnswer{Title: "Logged in to " + cleaned.Text(server), Text: "The router can use the server now. You can close this page."})
	return nil
}

// notGet is the denial of a request that must be a GET.
func notGet(w http.ResponseWriter, r *http.Request) *Denial {
	w.Header().Set("Allow", http.MethodGet)
	return &Denial{Status: http.StatusMethodNotAllowed, Err: conversation.InvalidRequest(r.URL.Path + " takes GET")}
}

// answerLogin shows a page about a login. Its URL has a code: no other site learns it as a referrer.
func answerLogin(w http.ResponseWriter, c *Sender, status int, a loginAnswer) {
	a.Home = c.Rules.At("/")
	writePage(w, status, "callback.html", a, "'none'", "no-referrer")
}

// writePage answers with a page about a login, which no other site may keep or frame. forms says where
// its forms may go, referrer how much other pages learn of its URL.
func writePage(w http.ResponseWriter, status int, name string, says any, forms, referrer string) {
	var page bytes.Buffer
	if err := pages().ExecuteTemplate(&page, name, says); err != nil {
		panic(err) // the page is a part of the program
	}
	logins.WritePage(w, status, page.Bytes(), "style-src 'unsafe-inline'; img-src data:; form-action "+forms, referrer)
}

package login

import (
	"context"
	"errors"
	"fmt"
	"html"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/mcp-metarouter/metarouter/internal/signal"
	"github.com/mcp-metarouter/metarouter/internal/urls"
)

const (
	// CallbackPath and DocumentPath are paths of the router's HTTP server.
	CallbackPath = "/oauth/callback"
	DocumentPath = "/oauth/client.json"
)

// Callback completes the login that the query of a redirect belongs to, for a browser with the
// session of the principal by. The error is for a person; the login of another principal
// counts as unknown.
func (l *Logins) Callback(ctx context.Context, by string, query string) (server string, err error) {
	answer, err := url.ParseQuery(query[:min(len(query), maxRedirected)])
	var p *Pending // with the only state of the answer
	l.mu.Lock()
	for _, one := range l.pending {
		if slices.Equal(answer["state"], []string{one.state}) {
			p = one
		}
	}
	l.mu.Unlock()
	if err != nil || p == nil || !signal.IsClosed(p.ready) || p.request.Way != Public || p.request.By != by {
		return "", errUnknown
	}
	return p.Server, p.complete(ctx, answer)
}

// answer answers a browser that comes back to the login's port of this machine.
func (p *Pending) answer(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet {
		w.Header().Set("Allow", http.MethodGet)
		writePage(w, http.StatusMethodNotAllowed, "This address is for the answer of an issuer.")
		return
	}
	answer, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil || !slices.Equal(answer["state"], []string{p.state}) || !comesBack(r, p) {
		writePage(w, http.StatusNotFound, sentence(errUnknown))
		return
	}
	done := p.Over.Err() != nil
	switch err := p.complete(r.Context(), answer); {
	case errors.Is(err, errNoCode):
		writePage(w, http.StatusBadRequest, sentence(err))
	case err != nil:
		writePage(w, http.StatusOK, sentence(err))
	case done:
		writePage(w, http.StatusOK, fmt.Sprintf("The login at %s is done already. You can close this window.", p.Server))
	default:
		writePage(w, http.StatusOK, fmt.Sprintf("You are logged in to %s. You can close this window.", p.Server))
	}
}

// comesBack reports whether the request is for the redirect URI of the login. With another Host it
// comes from a foreign page, under a name that leads to this machine (DNS rebinding).
func comesBack(r *http.Request, p *Pending) bool {
	u, err := url.Parse(p.redirect)
	if err != nil || r.URL.Path != u.Path && r.URL.Path+u.Path != "/" {
		return false
	}
	if strings.EqualFold(r.Host, u.Host) {
		return true
	}
	host, port, err := net.SplitHostPort(r.Host)
	return err == nil && port == strconv.Itoa(p.listener.port) && urls.IsLoopback(host)
}

// sentence returns the error as a sentence.
func sentence(err error) string {
	text := err.Error()
	return strings.ToUpper(text[:1]) + text[1:] + "."
}

// page is shown in a browser. It has no script, and asks for nothing.
const page = `<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>metarouter</title></head>
<body><h1>metarouter</h1><p>%s</p></body></html>
`

func writePage(w http.ResponseWriter, status int, text string) {
	WritePage(w, status, fmt.Appendf(nil, page, html.EscapeString(text)), "form-action 'none'", "no-referrer")
}

// WritePage answers with a page about a login, which no other site may keep or frame. policy says what the page may do (CSP), and
// referrer how much other pages learn of its URL.
func WritePage(w http.ResponseWriter, status int, page []byte, policy, referrer string) {
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", "default-src 'none'; base-uri 'none'; frame-ancestors 'none'; "+policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", referrer)
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	w.Write(page)
}

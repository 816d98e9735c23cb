// Package dashboard is the page that shows a running router to a person: its files, and the key
// that lets a browser of this machine in. What the page shows comes from the API of package admin.
package dashboard

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"embed"
	"encoding/hex"
	"fmt"
	"net"
	"net/http"
	"time"
)

// page has the files that browsers load.
//
//go:embed page
var page embed.FS

// policy lets the page load only its own files, and lets no page frame it.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// Index answers with the page.
func Index(w http.ResponseWriter, r *http.Request) { show(w, r, "index.html") }

// File answers with the page's file that the path value "file" names. Folders are not listed.
func File(w http.ResponseWriter, r *http.Request) { show(w, r, r.PathValue("file")) }

// show answers with one of the page's files. Browsers ask each time whether their copy is
// the newest, since another version of the program may answer next.
func show(w http.ResponseWriter, r *http.Request, name string) {
	data, err := page.ReadFile("page/" + name)
	if err != nil { // or it is a folder
		http.NotFound(w, r)
		return
	}
	sum := sha256.Sum256(data)
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-cache")
	h.Set("ETag", fmt.Sprintf("%q", hex.EncodeToString(sum[:12])))
	http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(data))
}

// keyLifetime is how long a browser that has come with the key stays let in.
const keyLifetime = 24 * time.Hour

// keyCookie is the name of the cookie of browsers that have come with the key. Browsers
// send a cookie to every port of an address, and other ports may have other pages.
func keyCookie(address string) string {
	_, port, _ := net.SplitHostPort(address)
	return "metarouter_key_" + port
}

// RequireKey returns a handler that lets only those browsers in that come with ?key=KEY
// first, which no other user of this machine knows, and that use the address as the
// name of the host.
func RequireKey(key, address string, h http.Handler) http.Handler {
	equal := func(given string) bool { return subtle.ConstantTimeCompare([]byte(given), []byte(key)) == 1 }
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		cookie, err := r.Cookie(keyCookie(address))
		switch {
		case r.Host != address:
			http.Error(w, "this host name is not accepted; open the dashboard at "+address, http.StatusForbidden)
		case r.URL.Path == "/" && equal(r.URL.Query().Get("key")):
			http.SetCookie(w, &http.Cookie{
				Name: keyCookie(address), Value: key, Path: "/", MaxAge: int(keyLifetime.Seconds()), HttpOnly: true, SameSite: http.SameSiteStrictMode,
			})
			http.Redirect(w, r, "/", http.StatusSeeOther)
		case err != nil || !equal(cookie.Value):
			http.Error(w, "use the address with the key that 'metarouter dashboard' printed", http.StatusForbidden)
		default:
			h.ServeHTTP(w, r)
		}
	})
}

package dashboard

import (
	"crypto/subtle"
	"net"
	"net/http"
	"time"
)

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

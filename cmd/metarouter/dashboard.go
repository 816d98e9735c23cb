package main

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"github.com/mcp-metarouter/metarouter/internal/daemon"
)

func (a *app) dashboard() *cobra.Command {
	var address string
	cmd := leaf("dashboard", "Show the page of the running router, such as one that clients share over stdio",
		`  metarouter dashboard
  metarouter dashboard --addr 127.0.0.1:8788`,
		cobra.NoArgs, func(ctx context.Context, _ []string) error {
			c, _, err := a.locate() // it starts nothing, and needs no trust
			if err != nil {
				return err
			}
			place := daemon.PlaceOf(a.data, c.Files)
			if !daemon.Running(place) {
				return errors.New("no router runs with this configuration; it does while a client uses 'metarouter serve'. Without a client: metarouter serve --http 127.0.0.1:8787, which has the page at /")
			}
			return a.showPage(ctx, place, address)
		})
	cmd.Flags().StringVar(&address, "addr", "127.0.0.1:0", "loopback `address` to serve the page at; port 0 is any")
	return cmd
}

// showPage passes the running router's page on to this machine's browsers, until ctx
// ends.
func (a *app) showPage(ctx context.Context, place daemon.Place, address string) error {
	resolved, err := net.ResolveTCPAddr("tcp", address)
	if err != nil {
		return usage(fmt.Errorf("--addr %s: %w", address, err))
	}
	if !resolved.IP.IsLoopback() {
		return usage(fmt.Errorf("--addr %s: the page is for this machine alone; write 127.0.0.1:%d, or use serve --http with a token", address, resolved.Port))
	}
	l, err := net.ListenTCP("tcp", resolved)
	if err != nil {
		return err
	}
	key := rand.Text()
	proxy := daemon.Proxy(place, func(w http.ResponseWriter, _ *http.Request, err error) {
		http.Error(w, err.Error(), http.StatusBadGateway)
	})
	mux := http.NewServeMux() // nothing but the page: the socket takes commands, too
	mux.Handle("GET /{$}", proxy)
	mux.Handle("/dashboard/", proxy)
	s := &http.Server{Handler: behind(key, l.Addr().String(), during(ctx, mux)), ReadHeaderTimeout: headerTime}
	defer context.AfterFunc(ctx, func() { s.Close() })()
	fmt.Fprintf(a.stdout, "http://%s/?key=%s\n", l.Addr(), key)
	fmt.Fprintln(a.stderr, "open this in a browser of this machine; ^C ends it")
	if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// keyCookie is the name of what a browser bears that has come with the key. Browsers
// send cookies to all ports of an address, where other routers' pages may be.
func keyCookie(address string) string {
	_, port, _ := net.SplitHostPort(address)
	return "metarouter_key_" + port
}

// behind lets in browsers that come with the key, which no other user of this machine
// knows, and by no other name than the address.
func behind(key, address string, h http.Handler) http.Handler {
	equal := func(given string) bool { return subtle.ConstantTimeCompare([]byte(given), []byte(key)) == 1 }
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		cookie, err := r.Cookie(keyCookie(address))
		switch {
		case r.Host != address:
			http.Error(w, "the page is at "+address, http.StatusForbidden)
		case r.URL.Path == "/" && equal(r.URL.Query().Get("key")):
			http.SetCookie(w, &http.Cookie{
				Name: keyCookie(address), Value: key, Path: "/", MaxAge: int((24 * time.Hour).Seconds()), HttpOnly: true, SameSite: http.SameSiteStrictMode,
			})
			http.Redirect(w, r, "/", http.StatusSeeOther)
		case err != nil || !equal(cookie.Value):
			http.Error(w, "use the address with the key that 'metarouter dashboard' printed", http.StatusForbidden)
		default:
			h.ServeHTTP(w, r)
		}
	})
}

package daemon

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
)

var errNone = errors.New("no router runs with this configuration")

// Running reports whether a router of the place runs.
func Running(p Place) bool { return len(p.sockets("")) > 0 }

// Proxy passes requests on to the newest running router of the place, as it is at each
// request. down answers requests that no router can take, and gets the reason.
func Proxy(p Place, down func(http.ResponseWriter, *http.Request, error)) http.Handler {
	return &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host = "http", "router"
			r.Out.Host = r.In.Host // by which the router knows its own pages
		},
		Transport: &http.Transport{
			DisableKeepAlives: true, // another router may be there by the next request
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				for _, socket := range p.sockets("") {
					if conn, err := dial(ctx, socket); err == nil {
						return conn, nil
					}
				}
				return nil, errNone
			},
		},
		FlushInterval: -1, // streams of events
		ErrorHandler:  down,
		ErrorLog:      log.New(io.Discard, "", 0), // a page that was closed is no error
	}
}

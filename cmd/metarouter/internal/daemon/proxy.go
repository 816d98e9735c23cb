package daemon

import (
	"bytes"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httputil"
)

// Running reports whether a router runs.
func Running(s Sockets) bool { return len(s.running("")) > 0 }

// maxRequest bounds the body of a request that Proxy passes on, in bytes.
const maxRequest = 16 << 20

// Proxy passes requests on to the newest running router, as it is at each
// request. down answers requests that no router can take, and gets the reason.
func Proxy(s Sockets, down func(http.ResponseWriter, *http.Request, error)) http.Handler {
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host = "http", "router"
			r.Out.Host = r.In.Host // by which the router knows its own pages
		},
		Transport:     transportTo(func() []string { return s.running("") }),
		FlushInterval: -1, // streams of events
		ErrorHandler:  down,
		ErrorLog:      log.New(io.Discard, "", 0), // a page that was closed is no error
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// The whole body is read first. Else the proxy may still look for its end when the answer
		// begins. Then net/http closes the body, and the proxy cuts the answer
		// (https://go.dev/issue/40747).
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequest))
		if err != nil {
			status := http.StatusBadRequest
			if errors.As(err, new(*http.MaxBytesError)) {
				status = http.StatusRequestEntityTooLarge
			}
			http.Error(w, "read the request: "+err.Error(), status)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		proxy.ServeHTTP(w, r)
	})
}

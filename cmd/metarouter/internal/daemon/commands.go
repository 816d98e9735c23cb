package daemon

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"os"
	"time"
)

// buildPath begins the paths at which a router answers commands of the same build of the program.
const buildPath = "/build/"

// pathOf returns the path at which a router of a [Program] answers.
func pathOf(program string) string {
	return fmt.Sprintf("%s%x", buildPath, sha256.Sum256([]byte(program)))
}

// Answer has h answer the requests of commands of the same program. A command of another build may
// mean something else by the same request.
func Answer(mux *http.ServeMux, program string, h http.Handler) {
	path := pathOf(program)
	mux.Handle(path+"/", http.StripPrefix(path, h))
	mux.HandleFunc("HEAD "+path+"/{$}", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc(buildPath, func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "the running router is another build of the program", http.StatusConflict)
	})
}

// Routers returns the running routers that answer this program, the newest first.
func Routers(ctx context.Context, s Sockets, program string) (all []http.RoundTripper) {
	for _, socket := range s.running("") {
		r := running{path: pathOf(program), transport: transportTo(func() []string { return []string{socket} })}
		q, _ := http.NewRequestWithContext(ctx, http.MethodHead, "http://router/", nil) // the URL is valid
		if answer, err := r.RoundTrip(q); err == nil {
			answer.Body.Close()
			if answer.StatusCode == http.StatusOK {
				all = append(all, r)
			}
		}
	}
	return all
}

type running struct {
	path      string // of requests of this program
	transport *http.Transport
}

// RoundTrip implements [http.RoundTripper].
func (r running) RoundTrip(q *http.Request) (*http.Response, error) {
	q = q.Clone(q.Context())
	q.URL.Path = r.path + q.URL.Path
	return r.transport.RoundTrip(q)
}

// transportTo returns a transport to the first router that answers at one of the sockets, as they are at each request.
func transportTo(sockets func() []string) *http.Transport {
	return &http.Transport{
		DisableKeepAlives: true, // another router may be there by the next request
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			for _, socket := range sockets() {
				if conn, err := dial(ctx, socket); err == nil {
					return conn, nil
				}
			}
			return nil, errors.New("no router runs with this configuration")
		},
	}
}

func dial(ctx context.Context, socket string) (net.Conn, error) {
	d := net.Dialer{Timeout: time.Second}
	c, err := d.DialContext(ctx, "unix", socket)
	if err != nil {
		return nil, err
	}
	if err := checkPeer(c, os.Geteuid()); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

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

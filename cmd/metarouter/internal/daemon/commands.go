package daemon

import (
	"context"
	"net"
	"net/http"
	"os"
	"time"
)

// buildPath begins the paths at which a router answers commands of the same build of the program.
const buildPath = "/build/"

// Answer has h answer the requests of commands of the same program. A command of another build may
// mean something else by the same request.
func Answer(mux *http.ServeMux, program string, h http.Handler) {
	path := buildPath + Hash(program)
	mux.Handle(path+"/", http.StripPrefix(path, h))
	mux.HandleFunc("HEAD "+path+"/{$}", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc(buildPath, func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "the running router is another build of the program", http.StatusConflict)
	})
}

// Routers returns the running routers that answer this program, the newest first.
func Routers(ctx context.Context, s Sockets, program string) (all []http.RoundTripper) {
	for _, socket := range s.running("") {
		r := running{path: buildPath + Hash(program), transport: &http.Transport{
			DisableKeepAlives: true,
			DialContext:       func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx, socket) },
		}}
		q, err := http.NewRequestWithContext(ctx, http.MethodHead, "http://router/", nil)
		if err != nil {
			continue
		}
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

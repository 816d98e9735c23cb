package cli

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/http"

	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/console"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/daemon"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/dashboard"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/web"
)

// Dashboard serves the running router's page to browsers of this machine until ctx ends. The address is
// the one of --addr.
func Dashboard(ctx context.Context, e *Env, address string) error {
	resolved, err := net.ResolveTCPAddr("tcp", address)
	if err != nil {
		return console.Usage(fmt.Errorf("--addr %s is not an address (%w); write for example --addr 127.0.0.1:8788", address, err))
	}
	if !resolved.IP.IsLoopback() {
		return console.Usage(fmt.Errorf("--addr %s: the page is for this machine alone; write 127.0.0.1:%d, or use serve --http with a token", address, resolved.Port))
	}
	c, _, err := e.Files.Locate() // it starts nothing, and needs no trust
	if err != nil {
		return err
	}
	sockets := daemon.SocketsOf(e.Files.Data, c.Files)
	if !daemon.Running(sockets) {
		return errors.New("no router runs with this configuration; start a client that uses it, or run 'metarouter serve --http 127.0.0.1:8787' and open http://127.0.0.1:8787/")
	}
	l, err := net.ListenTCP("tcp", resolved)
	if err != nil {
		return err
	}
	proxy := daemon.Proxy(sockets, func(w http.ResponseWriter, _ *http.Request, err error) {
		http.Error(w, err.Error(), http.StatusBadGateway)
	})
	mux := http.NewServeMux() // only the page, since the router's socket takes commands too
	mux.Handle("GET /{$}", proxy)
	mux.Handle("/dashboard/", proxy)
	key := rand.Text()
	s := &http.Server{Handler: dashboard.RequireKey(key, l.Addr().String(), daemon.During(ctx, mux)), ReadHeaderTimeout: web.HeaderTime, IdleTimeout: web.IdleTime}
	defer context.AfterFunc(ctx, func() { s.Close() })()
	fmt.Fprintf(e.Out, "http://%s/?key=%s\n", l.Addr(), key)
	fmt.Fprintln(e.Err, "open this address in a browser of this machine; Ctrl+C ends the page")
	if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

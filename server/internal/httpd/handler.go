package httpd

import (
	"context"
	"net"
	"net/http"
	"time"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/internal/audit"
	"github.com/mcp-metarouter/metarouter/internal/clientauth"
	"github.com/mcp-metarouter/metarouter/internal/rate"
	"github.com/mcp-metarouter/metarouter/server/internal/catalog"
	"github.com/mcp-metarouter/metarouter/server/internal/conversation"
	"github.com/mcp-metarouter/metarouter/server/internal/identity"
)

const (
	defaultMaxBody        = 16 << 20
	defaultSessionTimeout = 30 * time.Minute
	defaultMaxSessions    = 1000
	defaultMaxBodyMemory  = 256 << 20
)

// Options say which clients a [Handler] serves. The zero value serves programs of this
// machine.
type Options struct {
	Bound          string                 // the address that is listened on, host:port
	AllowedHosts   []string               // names by which clients may call the router, besides loopback and Bound; with or without port
	AllowedOrigins []string               // web pages that may call the router, such as https://example.com
	Tokens         []clientauth.Principal // requests must have the token of one of them; if empty, requests need no token
	MaxBody        int64                  // bytes of one message or batch; default 16 MiB
	MaxBodyMemory  int64                  // bytes that the bodies of all requests and long answers may take together, besides 8 KiB of each; default 256 MiB
	Rate           float64                // requests a second that one client may make for long; 0 is any number
	Burst          int                    // requests that one client may make at once; default the requests of a second
	Rates          map[string]rate.Limit  // of principals, by Hash, instead of Rate and Burst
	SessionTimeout time.Duration          // after which an idle session ends; default 30 minutes
	MaxSessions    int                    // default 1000

	// Live returns the options that are in force now, and a channel that is closed when others
	// are. It is called for each request; an Options that was returned must not be modified.
	// Bound, Live, Pages, Logins, Accounts and Audit never change. nil: no option ever changes.
	Live func() (*Options, <-chan struct{})

	// Pages are served to people and programs, behind the same checks as MCP; may
	// be nil. A path without a pattern is not found.
	Pages *http.ServeMux

	// Logins take logins at remote servers that come back at /oauth/callback; may be nil.
	Logins identity.Logins

	// Accounts are what users have of their own; may be nil.
	Accounts identity.Accounts

	PublicURL string              // by which clients reach the router, without a slash at the end; "" if it is not known
	Issuers   []clientauth.Issuer // that let clients in by access tokens; needs PublicURL and Authenticator

	// Authenticator verifies access tokens of Issuers, and certificates; may be nil.
	Authenticator clientauth.Authenticator

	// Audit records the actions of principals besides calls; may be nil. It never changes.
	Audit audit.Recorder
}

// Backends are the router that a [Handler] serves, as clients of profiles see it. All fields
// but Limited are required.
type Backends struct {
	// Of returns the router as clients see it that have chosen all of the profiles. It
	// reports false if one of the profiles does not exist.
	Of func(chosen ...string) (*Backend, bool)

	All     func() []*Backend // returns those that were made
	Limited bool              // all clients have profiles besides those that they choose

	// ReadOnly may be chosen like a profile, and allows only tools that just read.
	ReadOnly string

	// Only returns what may be chosen like a profile, and allows some servers alone; nil if clients can't choose servers.
	Only func(servers ...string) string

	Whole   Router // the router without a profile
	Node    string // this machine, as in node_id
	Version string
	Started time.Time
	Log     *zap.Logger
}

// A Backend is a router as clients see it that have chosen the same profiles. All fields are
// required.
type Backend struct {
	Router  Router
	Clients *conversation.Clients
	Catalog *catalog.Catalog
	Mode    func() string
	Retired context.Context // ends when one of the profiles exists no more
}

// A Handler serves MCP over HTTP: streamable HTTP of both eras and plain JSON-RPC at
// /mcp, each method at /mcp/<method> in the style of REST, the same for the profile NAME at
// /mcp/p/NAME, with the server NAME alone at /mcp/s/NAME, the state of the router at /health and /v1/mesh_scan, and the paths that logins at remote
// servers need below /oauth/. It must be closed.
type Handler struct {
	backends   *Backends
	settings   *settings
	work       *work
	clients    *identity.Identifier
	streamable *streamable
	plain      *plain
	pages      *http.ServeMux  // may be nil
	logins     identity.Logins // may be nil
	opened     *rate.Limiter   // of each address, for the documents that any web page may read
}

// New returns a handler of the router.
func New(b *Backends, o Options) *Handler {
	log, work := b.Log.Named("http"), newWork()
	_, port, _ := net.SplitHostPort(o.Bound)
	h := &Handler{backends: b, work: work, plain: &plain{work, b}, pages: o.Pages, logins: o.Logins, opened: rate.PerMinute(openPerMinute)}
	h.clients = identity.New(work.ctx, identity.Options{
		Port: port, Pages: o.Pages != nil, Logins: o.Logins, Accounts: o.Accounts, Audit: o.Audit, Log: log.Named("login"),
	})
	h.settings = &settings{live: o.Live, revoke: h.revoke}
	if o.Live == nil {
		h.settings.live = func() (*Options, <-chan struct{}) { return &o, nil }
	}
	h.streamable = &streamable{&sessions{work: work, log: log, byID: make(map[string]*httpSession), rules: h.settings.current}, b}
	if o.Live != nil {
		work.running.Go(func() { h.settings.watch(work.ctx) })
	}
	return h
}

// revoke ends the sessions and requests that the next rules do not permit: grants, with the suspended requests of their principals, and
// logins of browsers.
func (h *Handler) revoke(before, next *rules) {
	h.clients.Revoke(before.clients, next.clients, func(these func(conversation.Identity) bool) {
		for _, b := range h.backends.All() {
			b.Clients.AbandonVisitorsOf(these)
		}
	})
	h.work.cut()
}

// Close takes no more requests, lets those in flight be answered until ctx ends,
// cancels the others and ends all sessions and streams. When it returns, nothing of
// them runs.
func (h *Handler) Close(ctx context.Context) {
	h.work.drain(ctx)
	h.work.stop()
	h.work.cut()
	h.streamable.sessions.removeAll()
	h.work.running.Wait()
	h.clients.Close()
	for _, b := range h.backends.All() {
		b.Clients.AbandonVisitorsOf(func(conversation.Identity) bool { return true })
	}
}

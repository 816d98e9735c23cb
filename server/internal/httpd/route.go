package httpd

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	logins "github.com/mcp-metarouter/metarouter/internal/login"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/server/internal/conversation"
	"github.com/mcp-metarouter/metarouter/server/internal/identity"
)

// A route is a group of paths that need the same right.
type route int

// The routes. A new one goes before routes.
const (
	routeMCP      route = iota // /mcp and below: the tools that the principal's profile allows
	routeHealth                // /health: without a token only whether the router works
	routeMesh                  // /v1/mesh_scan: servers of the profile; details such as processes and errors for admins only
	routePage                  // a page, or its requests: they show the calls of all clients, act on servers, and call tools of all profiles
	routeLogin                 // /login and below, /logout
	routeCallback              // /oauth/callback, of logins at remote servers: only admins may log in for all clients
	routeDocument              // /oauth/client.json: the router as a client of issuers
	routeMetadata              // of protected resources, if issuers let clients in
	routeElse                  // nothing is there, which only those with a token learn
	routes
)

// isForAdmins reports whether only administrators may use the route, if requests need a token. A route that is not named here is
// for them.
func (to route) isForAdmins() bool {
	switch to {
	case routeMCP, routeHealth, routeMesh, routeLogin, routeDocument, routeMetadata, routeElse:
		return false
	}
	return true
}

// routeOf returns the route of a path. page says that a page has the path.
func routeOf(path string, page bool) route {
	switch {
	case strings.HasPrefix(path, "/mcp/"), path == "/mcp":
		return routeMCP
	case path == "/health":
		return routeHealth
	case path == "/v1/mesh_scan":
		return routeMesh
	case identity.IsCallback(path):
		return routeCallback
	case path == logins.DocumentPath:
		return routeDocument
	case identity.IsMetadata(path):
		return routeMetadata
	case page:
		return routePage
	case identity.IsLogin(path):
		return routeLogin
	}
	return routeElse
}

// isForBrowsers reports whether browsers ask for the target, with a cookie.
func (t target) isForBrowsers() bool {
	return t.route == routePage || t.route == routeLogin || t.route == routeCallback
}

// unprefixed returns the request as without the prefix of the public URL, if it is one of ours then.
// A path that is one of ours with the prefix as well is left as it is, unless the prefix itself
// looks like MCP.
func unprefixed(r *http.Request, rules *identity.Rules, pages *http.ServeMux) *http.Request {
	rest, ok := rules.Below(r.URL.Path)
	likeMCP := strings.HasPrefix(rules.Prefix, "/mcp/")
	if !ok || rest == "" && likeMCP {
		return r
	}
	raw, _ := rules.Below(r.URL.RawPath)
	next, at := *r, *r.URL
	at.Path, at.RawPath = rest, raw
	if rest == "" {
		at.Path = "/"
	}
	next.URL = &at
	whole, below := routeOf(r.URL.Path, isPage(pages, r)), routeOf(at.Path, isPage(pages, &next))
	if below == routeElse && !isDiscovery(at.Path) || whole != routeElse && !(whole == routeMCP && likeMCP) {
		return r
	}
	return &next
}

// isBare reports whether the browser asks for the page at the prefix without a slash behind it.
// Links of the page are relative, and would lead elsewhere.
func isBare(r *http.Request) bool {
	q := requestOf(r)
	asked, err := url.ParseRequestURI(r.RequestURI) // as it was before unprefixed
	return err == nil && q.rules.clients.Prefix != "" && r.URL.Path == "/" && asked.Path == q.rules.clients.Prefix
}

// serverPrefix begins the paths that name a server: /mcp/s/NAME is as /mcp with this server alone, shown as itself. It may
// follow the name of a profile: /mcp/p/PROFILE/s/NAME.
const serverPrefix = "/mcp/s/"

// split returns the name that follows the prefix of a path, which may be "", and the path without both.
func split(path, prefix string) (name, rest string) {
	named, ok := strings.CutPrefix(path, prefix)
	name, method, more := strings.Cut(named, "/")
	switch {
	case !ok || name == "":
		return "", path
	case more:
		return name, "/mcp/" + method
	}
	return name, "/mcp"
}

// view returns the router for a client that has chosen the profile and the server of the URL, and the profile of
// its token; may be "". reads says that it may use only tools that just read. It reports false if one
// of them does not exist, or if all together, or with those that all clients have, allow no
// server: a client can't find out which profiles there are.
func (b *Backends) view(to target, token string, reads bool) (*Backend, bool) {
	var chosen []string
	url := to.profile
	switch {
	case url != "" && !identity.IsProfileName(url), reads && b.ReadOnly == "", to.server != "" && b.Only == nil:
		return nil, false // no path can name a union of profiles, nor the rule that allows only reading
	case reads:
		chosen = []string{b.ReadOnly}
	}
	for _, profile := range []string{url, token} {
		if profile != "" && !slices.Contains(chosen, profile) {
			chosen = append(chosen, profile)
		}
	}
	if to.server != "" {
		chosen = append(chosen, b.Only(to.server))
	}
	seen, ok := b.Of(chosen...)
	narrowed := to.server != "" || url != "" && url != token && (token != "" || b.Limited || reads)
	return seen, ok && (!narrowed || len(seen.Router.Servers()) > 0)
}

// refuseCall refuses the call of a tool that the principal may call as soon as its token has the
// scope for calls, and not yet. A client learns that from 403 alone, before any answer begins. It
// reports false for all other messages.
func (b *Backends) refuseCall(w http.ResponseWriter, r *http.Request, m conversation.Message) bool {
	q := requestOf(r)
	if !q.client.Principal.Reads || m.Method != "tools/call" || !m.IsRequest() {
		return false
	}
	denied := q.client.NeedsCall()
	name, ok := q.called(m)
	if denied == nil || !ok || q.backend.Catalog.IsOwn(name) {
		return false
	}
	if _, ok := q.backend.Catalog.Listed(name); ok {
		return false
	}
	whole, ok := b.view(q.target, q.client.Principal.Profile, false)
	if !ok {
		return false
	}
	if _, ok := whole.Catalog.Listed(name); !ok {
		return false // no server has it, or the profile does not allow it
	}
	deny(w, r, m.ID, denied)
	return true
}

// refuseCalls is refuseCall for the messages of a batch: one of them is enough.
func (b *Backends) refuseCalls(w http.ResponseWriter, r *http.Request, entries [][]byte) bool {
	q := requestOf(r)
	if !q.client.Principal.Reads {
		return false
	}
	for _, entry := range entries {
		if m, err := parsePlain(entry); err == nil && b.refuseCall(w, r, m) {
			return true
		}
	}
	return false
}

// called returns the name of the tool that tools/call calls, also by our own call_tool.
func (q *request) called(m conversation.Message) (name string, ok bool) {
	name, ok = wire.String(m.Name)
	if !ok || q.backend.Catalog.Unprefixed(name) != "call_tool" {
		return name, ok
	}
	for _, argument := range []string{"tool", "name"} {
		if inner, ok := wire.String(wire.Member(m.Args, argument)); ok {
			return inner, true
		}
	}
	return "", false
}

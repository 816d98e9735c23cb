package httpd

import (
	"net/http"
	"net/url"
	"strings"

	logins "github.com/mcp-metarouter/metarouter/internal/login"
	"github.com/mcp-metarouter/metarouter/server/internal/identity"
)

// A route is a group of paths that need the same right.
type route int

// The routes. A new one goes before routes, and into judged.
const (
	routeMCP      route = iota // /mcp and below: the tools that the principal's profile allows
	routeHealth                // /health
	routeMesh                  // /v1/mesh_scan: servers of the profile
	routePage                  // a page, or its requests
	routeLogin                 // /login and below, /logout
	routeCallback              // /oauth/callback, of logins at remote servers
	routeDocument              // /oauth/client.json: the router as a client of issuers
	routeMetadata              // of protected resources, if issuers let clients in
	routeElse                  // nothing is there
	routes
)

// A need is the right that a principal needs for a route. The zero value says that the route is not judged yet,
// and refuses every request.
type need int

const (
	needsNothing need = iota + 1 // not even a token
	needsToken                   // a token of any role, if requests need one
	needsAdmin                   // a token of an admin, if requests need one
)

// judged has the need of each route.
var judged = [routes]need{
	routeMCP:    needsToken,
	routeHealth: needsNothing, // without a token only whether the router works
	routeMesh:   needsToken,   // details such as processes and errors for admins only
	routePage:   needsAdmin,   // the pages show the calls of all clients, act on servers, and call tools of all profiles
	routeLogin:  needsNothing,

	routeCallback: needsAdmin, // only they may log in for all clients
	routeDocument: needsNothing,
	routeMetadata: needsNothing,

	routeElse: needsToken, // so that strangers do not learn which paths exist
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

package httpd

import (
	"net/http"
	"strings"

	"github.com/mcp-metarouter/metarouter/internal/rate"
	"github.com/mcp-metarouter/metarouter/internal/wire"
)

const (
	// metadataPath is where clients find the metadata of a protected resource (RFC 9728): it
	// alone, or with the path of the resource behind it.
	metadataPath = "/.well-known/oauth-protected-resource"

	// openPerMinute is how often one address may read what any web page may read.
	openPerMinute = 60
)

func newOpenLimiter() *rate.Limiter { return rate.New(openPerMinute/60.0, openPerMinute) }

// mcpPath returns the path of the resource that the request is for. All that is no MCP takes the
// tokens for /mcp.
func (x *exchange) mcpPath() string {
	if !isProfileName(x.profile) {
		return "/mcp"
	}
	return profilePrefix + x.profile
}

// isMetadata reports whether the path is that of metadata, which need not exist.
func isMetadata(path string) bool {
	return path == metadataPath || strings.HasPrefix(path, metadataPath+"/")
}

// describedBy returns the MCP path that the metadata at a path describe. It reports false if there
// are none.
func (r *rules) describedBy(path string) (resource string, ok bool) {
	of := strings.TrimSuffix(strings.TrimPrefix(path, metadataPath), "/")
	if rest, below := cutPath(of, r.prefix); below { // clients put the well-known path before that of the resource
		of = strings.TrimSuffix(rest, "/")
	}
	if of == "" || of == "/mcp" {
		return "/mcp", true
	}
	profile, ok := strings.CutPrefix(of, profilePrefix)
	return of, ok && isProfileName(profile)
}

// metadata answers with the metadata of the MCP path, for any well-formed name of a profile:
// strangers do not learn which profiles there are.
func (h *Handler) metadata(x *exchange) {
	of, ok := x.rules.describedBy(x.r.URL.Path)
	if !ok {
		x.nothingThere()
		return
	}
	var servers, scopes []string
	for _, i := range x.rules.options.Issuers {
		if i.URL != "" {
			servers = append(servers, i.URL)
			scopes = append(append(scopes, i.Read...), i.Call...)
		}
	}
	x.w.Header().Set("Cache-Control", "public, max-age=300")
	x.json(http.StatusOK, wire.Marshal(struct {
		Resource string   `json:"resource"`
		Servers  []string `json:"authorization_servers"`
		Scopes   []string `json:"scopes_supported,omitempty"`
		Methods  []string `json:"bearer_methods_supported"`
		Name     string   `json:"resource_name"`
	}{x.rules.publicURL + of, servers, strings.Fields(scopeOf(scopes)), []string{"header"}, "metarouter"}))
}

// open answers a request for what any web page may read without credentials.
func (h *Handler) open(x *exchange) {
	crossOrigin(x, "*")
	if wait := h.openLimit.Take(network(x.r.RemoteAddr), 1, 1); wait > 0 {
		x.retryAfter(wait)
		x.refuse(http.StatusTooManyRequests, nil, busy("too many requests from this address"))
		return
	}
	switch {
	case isPreflight(x.r):
		x.preflight("GET, HEAD")
	case !x.isRead():
		x.notAllowed("GET, HEAD", x.r.URL.Path+" takes GET")
	case x.to == routeMetadata:
		h.metadata(x)
	default:
		h.document(x)
	}
}

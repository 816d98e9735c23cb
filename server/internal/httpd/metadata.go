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

// open answers what any client may ask.
type open struct {
	info   *info
	logins Logins        // may be nil
	limit  *rate.Limiter // of each address, for what any web page may read
	next   http.Handler
}

// ServeHTTP implements [http.Handler].
func (h *open) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q := requestOf(r)
	switch to := q.target.route; {
	case q.target.isOpen():
		h.anyPage(w, r)
	case to == routeHealth && isRead(r):
		writeJSON(w, r, http.StatusOK, h.info.health(q.rules.access.public))
	case to == routeMCP && allowsPage(w, r) && isPreflight(r):
		preflight(w, "GET, POST, DELETE")
	default:
		h.next.ServeHTTP(w, r)
	}
}

// isOpen reports whether any web page may read what is there, without credentials.
func (t target) isOpen() bool { return t.route == routeMetadata || t.route == routeDocument }

// anyPage answers what any web page may read.
func (h *open) anyPage(w http.ResponseWriter, r *http.Request) {
	crossOrigin(w, "*")
	if wait := h.limit.Take(network(r.RemoteAddr), 1, 1); wait > 0 {
		refuseBusy(w, r, http.StatusTooManyRequests, wait, "too many requests from this address")
		return
	}
	switch {
	case isPreflight(r):
		preflight(w, "GET, HEAD")
	case !isRead(r):
		notAllowed(w, r, "GET, HEAD", r.URL.Path+" takes GET")
	case requestOf(r).target.route == routeMetadata:
		h.metadata(w, r)
	default:
		h.document(w, r)
	}
}

// mcpPath returns the path of the resource that the request is for. All that is no MCP takes the
// tokens for /mcp.
func (t target) mcpPath() string {
	if !isProfileName(t.profile) {
		return "/mcp"
	}
	return profilePrefix + t.profile
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
func (h *open) metadata(w http.ResponseWriter, r *http.Request) {
	q := requestOf(r)
	of, ok := q.rules.describedBy(r.URL.Path)
	if !ok {
		nothingThere(w, r)
		return
	}
	var servers, scopes []string
	for _, i := range q.rules.options.Issuers {
		if i.URL != "" {
			servers = append(servers, i.URL)
			scopes = append(append(scopes, i.Read...), i.Call...)
		}
	}
	w.Header().Set("Cache-Control", "public, max-age=300")
	writeJSON(w, r, http.StatusOK, wire.Marshal(struct {
		Resource string   `json:"resource"`
		Servers  []string `json:"authorization_servers"`
		Scopes   []string `json:"scopes_supported,omitempty"`
		Methods  []string `json:"bearer_methods_supported"`
		Name     string   `json:"resource_name"`
	}{q.rules.publicURL + of, servers, strings.Fields(scopeOf(scopes)), []string{"header"}, "metarouter"}))
}

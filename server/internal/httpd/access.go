package httpd

import (
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/mcp-metarouter/metarouter/server/internal/conversation"
	"github.com/mcp-metarouter/metarouter/server/internal/identity"
)

// addresses lets requests pass that call the router by one of its names, and come from one of its
// web pages or no page.
type addresses struct{ next http.Handler }

// ServeHTTP implements [http.Handler].
func (h *addresses) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q := requestOf(r)
	if err := q.rules.access.admit(r, q.target.isOpen()); err != nil {
		refuse(w, r, http.StatusForbidden, nil, err)
		return
	}
	h.next.ServeHTTP(w, r)
}

// An access decides which requests are let in. A web page in a browser must not
// reach the router by a host name of its own (DNS rebinding) or across origins.
type access struct {
	hosts   []string // lower case, each with or without a port
	origins []string // lower case
}

func newAccess(o *Options) (a access) {
	for _, host := range append([]string{identity.Hostname(o.Bound)}, o.AllowedHosts...) {
		if host != "" {
			a.hosts = append(a.hosts, strings.ToLower(host))
		}
	}
	for _, origin := range o.AllowedOrigins {
		a.origins = append(a.origins, strings.ToLower(strings.TrimSuffix(origin, "/")))
	}
	if public, err := url.Parse(o.PublicURL); err == nil && public.Host != "" {
		a.hosts = append(a.hosts, strings.ToLower(public.Host))
	}
	return a
}

// admit checks by which host name the router is called, and, unless any page may, from which
// page.
func (a access) admit(r *http.Request, anyPage bool) error {
	if !a.knows(r.Host, r) {
		return conversation.InvalidRequest("the host " + conversation.Brief(r.Host) + " is not allowed; start the router with --allow-host " + conversation.Brief(identity.Hostname(r.Host)) + ", or add it to \"allowedHosts\" in \"metarouter\", \"http\" of the configuration")
	}
	if anyPage {
		return nil
	}
	for _, origin := range r.Header.Values("Origin") {
		page, err := url.Parse(origin)
		if slices.Contains(a.origins, strings.ToLower(origin)) || err == nil && page.Host != "" && a.knows(page.Host, r) {
			continue
		}
		return conversation.InvalidRequest("the origin " + conversation.Brief(origin) + " is not allowed; add it to \"allowedOrigins\" in \"metarouter\", \"http\" of the configuration")
	}
	return nil
}

// knows reports whether host, with or without a port, is loopback, an address that the
// router is bound to, or allowed.
func (a access) knows(host string, r *http.Request) bool {
	host = strings.ToLower(host)
	name := identity.Hostname(host)
	if name == "localhost" || slices.Contains(a.hosts, name) || slices.Contains(a.hosts, host) {
		return true
	}
	ip := net.ParseIP(name)
	local, _ := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr) // if the router is bound to every address
	return ip != nil && (ip.IsLoopback() || local != nil && ip.Equal(local.IP))
}

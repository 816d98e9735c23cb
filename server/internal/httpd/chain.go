package httpd

import (
	"cmp"
	"fmt"
	"math"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/mcp-metarouter/metarouter/internal/clientauth"
	"github.com/mcp-metarouter/metarouter/server/internal/conversation"
	"github.com/mcp-metarouter/metarouter/server/internal/identity"
)

// pass takes a request through the chain. Each step reports whether the request goes on; if not, the step has answered it.
func (h *Handler) pass(w http.ResponseWriter, r *http.Request) {
	if addresses(w, r) && h.open(w, r) && h.identify(w, r) && h.browse(w, r) && h.authorize(w, r) {
		h.route(w, r)
	}
	if p := responseOf(w); p.refused {
		h.clients.Refused(r, &requestOf(r).client, p.why)
	}
}

// identify finds out who sends the request, and lets a client make as many requests as its limiter allows. Who has proved nothing
// goes on, too.
func (h *Handler) identify(w http.ResponseWriter, r *http.Request) bool {
	q := requestOf(r)
	if h.clients.Identify(r, &q.client) {
		responseOf(w).expectBody(r) // the body has as much time as without
	}
	q.quota.payer = q.client.Principal.Hash
	q.quota.limiter = cmp.Or(q.rules.limiters[q.quota.payer], q.rules.limiter)
	if q.quota.payer == "" && q.quota.limiter != nil { // a client that guesses tokens is known by its address alone
		q.quota.payer = clientauth.Network(r.RemoteAddr)
	}
	return pay(w, r, 1)
}

// pay counts so many requests of the client, less those that it has paid for. If it
// reports false, it has answered that they are too many.
func pay(w http.ResponseWriter, r *http.Request, requests int) bool {
	q := requestOf(r)
	l := q.quota.limiter
	wait := l.Take(q.quota.payer, requests-q.quota.paid, requests)
	if wait == 0 {
		q.quota.paid = requests
		return true
	}
	whose := ""
	if l != q.rules.limiter {
		whose = " with the token " + q.client.Principal.Name
	}
	deny(w, r, nil, identity.Busy(http.StatusTooManyRequests, wait, fmt.Sprintf("too many requests%s: %v a second are allowed, and %d at once", whose, math.Round(l.PerSecond*1e4)/1e4, l.Burst)))
	return false
}

// browse answers the requests that only browsers send: logins, here and, if the options have Logins, at remote servers.
func (h *Handler) browse(w http.ResponseWriter, r *http.Request) bool {
	q := requestOf(r)
	if q.target.route == routeCallback && h.logins == nil {
		nothingThere(w, r)
		return false
	}
	html := false
	if q.client.Browser {
		_, html = accepts(r, "text/html")
	}
	if q.target.route == routeLogin {
		r.Body = http.MaxBytesReader(responseOf(w).ResponseWriter, r.Body, identity.MaxForm)
	}
	served, denied := h.clients.Browse(w, r, &q.client, html)
	if denied != nil {
		deny(w, r, nil, denied)
	}
	return !served && denied == nil
}

// authorize lets clients use the routes that they may use, and finds the router as each client sees it.
func (h *Handler) authorize(w http.ResponseWriter, r *http.Request) (found bool) {
	q := requestOf(r)
	c := &q.client
	switch forbidden := c.Forbidden(); {
	case !c.IsIn() && isDiscovery(r.URL.Path):
		nothingThere(w, r)
	case !c.IsIn():
		deny(w, r, nil, c.Unknown(r))
	case forbidden != nil:
		deny(w, r, nil, forbidden)
	default:
		if q.backend, found = h.backends.view(q.target, c.Principal.Profile, c.Principal.Reads); !found {
			q.target.method = ""
			nothingThere(w, r)
		}
	}
	return found
}

// isDiscovery reports whether a client without a token looks for an OAuth server at the path:
// this router is not one, which it learns from 404 but not from 401.
func isDiscovery(path string) bool {
	return strings.HasPrefix(path, "/.well-known/")
}

// addresses lets requests pass that call the router by one of its names, and come from one of its web pages or no page.
func addresses(w http.ResponseWriter, r *http.Request) bool {
	q := requestOf(r)
	err := q.rules.access.admit(r, q.target.isOpen())
	if err != nil {
		refuse(w, r, http.StatusForbidden, nil, err)
	}
	return err == nil
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

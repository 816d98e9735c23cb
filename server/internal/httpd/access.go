package httpd

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/mcp-metarouter/metarouter/server/internal/conversation"
)

// addresses lets requests pass that call the router by one of its names, and come from one of its
// web pages or none.
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
	known   []Principal
	public  bool // requests need no token
}

func newAccess(o Options) (a access) {
	for _, host := range append([]string{hostname(o.Bound)}, o.AllowedHosts...) {
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
	a.known, a.public = o.Tokens, len(o.Tokens) == 0 && len(o.Issuers) == 0
	return a
}

// admit checks by which host name the router is called, and, unless any page may, from which
// page.
func (a access) admit(r *http.Request, anyPage bool) error {
	if !a.knows(r.Host, r) {
		return conversation.InvalidRequest("the host " + conversation.Brief(r.Host) + " is not allowed; start the router with --allow-host " + conversation.Brief(hostname(r.Host)) + ", or add it to \"allowedHosts\" in \"metarouter\", \"http\" of the configuration")
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
	name := hostname(host)
	if name == "localhost" || slices.Contains(a.hosts, name) || slices.Contains(a.hosts, host) {
		return true
	}
	ip := net.ParseIP(name)
	return ip != nil && (ip.IsLoopback() || ip.Equal(localIP(r)))
}

// hostname returns host without a port and without the brackets of IPv6.
func hostname(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		return name
	}
	return strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
}

// localIP returns the router's address of the connection: the address that it is bound
// to if it is bound to every address.
func localIP(r *http.Request) net.IP {
	if local, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr); ok {
		return local.IP
	}
	return nil
}

// A Principal is who a client has proved to be. The zero value has proved nothing.
type Principal struct {
	Hash    string // SHA-256 of its token, 64 hex digits in lower case; "" if requests need no token
	Name    string // in logs; "" without a token
	Profile string // of its token, or a union of profiles ("dev|ops"); "" if it has none
	Reads   bool   // it may use only what just reads
	Admin   bool   // it may use the pages' actions, and see the calls of others
}

// anyone is the principal of all clients if requests need no token.
var anyone = Principal{Admin: true}

// identify returns who sends the request by a token of the options. It reports false if the token
// is missing or another one.
func (a access) identify(r *http.Request) (who Principal, ok bool) {
	if a.public {
		return anyone, true
	}
	return a.holder(bearerOf(r))
}

// holder returns the principal that has the token.
func (a access) holder(token string) (who Principal, ok bool) {
	sum := sha256.Sum256([]byte(strings.TrimSpace(token)))
	hash := []byte(hex.EncodeToString(sum[:]))
	for _, known := range a.known { // all of them, so that the time that this takes reveals nothing
		if subtle.ConstantTimeCompare([]byte(known.Hash), hash) == 1 && !ok {
			who, ok = known, true
		}
	}
	return who, ok
}

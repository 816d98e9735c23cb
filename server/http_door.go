package server

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// A door decides who may come in. A web page that a browser shows must not reach
// us by a name of its own for our address (DNS rebinding) or across origins.
type door struct {
	hosts   []string // lower case, each with or without a port
	origins []string // lower case
	tokens  [][sha256.Size]byte
}

func newDoor(o HTTPOptions) (d door) {
	for _, host := range append([]string{hostname(o.Bound)}, o.AllowedHosts...) {
		if host != "" {
			d.hosts = append(d.hosts, strings.ToLower(host))
		}
	}
	for _, origin := range o.AllowedOrigins {
		d.origins = append(d.origins, strings.ToLower(strings.TrimSuffix(origin, "/")))
	}
	for _, token := range o.Tokens {
		d.tokens = append(d.tokens, sha256.Sum256([]byte(token)))
	}
	return d
}

// admit checks by which name we are called, and by which page.
func (d door) admit(r *http.Request) error {
	if !d.knows(r.Host, r) {
		return invalidRequest("the host " + brief(r.Host) + " is not allowed; start the router with --allow-host")
	}
	for _, origin := range r.Header.Values("Origin") {
		page, err := url.Parse(origin)
		if slices.Contains(d.origins, strings.ToLower(origin)) || err == nil && page.Host != "" && d.knows(page.Host, r) {
			continue
		}
		return invalidRequest("the origin " + brief(origin) + " is not allowed; see http.allowedOrigins in the configuration")
	}
	return nil
}

// brief returns the beginning of what a stranger sent, to be repeated to him.
func brief(s string) string { return s[:min(len(s), 200)] }

// knows reports whether host, with or without a port, is loopback, an address we
// are bound to or allowed.
func (d door) knows(host string, r *http.Request) bool {
	host = strings.ToLower(host)
	name := hostname(host)
	return name == "localhost" || net.ParseIP(name).IsLoopback() || slices.Contains(d.hosts, host) ||
		slices.Contains(d.hosts, name) || net.ParseIP(name) != nil && net.ParseIP(name).Equal(localIP(r))
}

// hostname returns host without a port and without the brackets of IPv6.
func hostname(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		return name
	}
	return strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
}

// localIP returns our address of the connection, which is what we are bound to
// where that is every address.
func localIP(r *http.Request) net.IP {
	if local, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr); ok {
		return local.IP
	}
	return nil
}

// identify returns who sends the request: the hash of the token that it bears, ""
// where none is needed. It reports false if the token is missing or wrong.
func (d door) identify(r *http.Request) (principal string, ok bool) {
	if len(d.tokens) == 0 {
		return "", true
	}
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	sum := sha256.Sum256([]byte(strings.TrimSpace(token)))
	for _, known := range d.tokens { // all, so that the time says nothing
		if subtle.ConstantTimeCompare(known[:], sum[:]) == 1 {
			ok = true
		}
	}
	return hex.EncodeToString(sum[:]), ok && strings.EqualFold(scheme, "Bearer")
}

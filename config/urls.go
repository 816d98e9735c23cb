package config

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"

	"github.com/tailscale/hujson"

	"github.com/mcp-metarouter/metarouter/internal/lazy"
)

// urls reads URLs.
type urls struct{ *expander }

// issuerURL reads the identifier of an issuer, which is not normalized: tokens must have the
// same bytes.
func (d urls) issuerURL(v hujson.Value) (string, error) {
	s, err := d.secureURL(v, `"https://id.example.com"`)
	switch {
	case err != nil || d.env.asWritten && strings.Contains(s, "${"):
	case s == "":
		err = errors.New(`must be the issuer's URL; write it like "https://id.example.com", as its tokens name it in "iss"`)
	case strings.Contains(s, "?"):
		err = errors.New(`must be the issuer's URL without a query; write it as its tokens name it in "iss"`)
	case strings.Contains(s, "/.well-known/"):
		err = errors.New(`must be the issuer itself, not the address of its metadata; write it without "/.well-known/…", as its tokens name it in "iss"`)
	}
	return s, err
}

func (d urls) keysURL(v hujson.Value) (string, error) {
	return d.secureURL(v, `"https://id.example.com/keys"`)
}

// secureURL reads a whole URL that no one on the way can answer for: of https, or of this
// machine. "" stays "".
func (d urls) secureURL(v hujson.Value, example string) (string, error) {
	s, err := d.bounded(maxValue)(v)
	if err != nil || s == "" || d.env.asWritten && strings.Contains(s, "${") {
		return s, err
	}
	u, bad := url.Parse(s)
	switch {
	case bad != nil || u.Hostname() == "" || u.User != nil || strings.ContainsAny(s, "# \\"):
		return "", fmt.Errorf("must be a whole URL without a user, a fragment and spaces; write it like %s", example)
	case u.Scheme == "http" && !isLoopback(u.Hostname()), u.Scheme != "http" && u.Scheme != "https":
		return "", fmt.Errorf(`must begin with "https:", since others could change what a host elsewhere says without TLS; write it like %s`, example)
	}
	return s, nil
}

// documentURL reads the URL of a client ID metadata document.
func (d urls) documentURL(v hujson.Value) (string, error) {
	s, err := d.webURL(v)
	if u, bad := url.Parse(s); err == nil && s != "" && !d.missing.any() && !strings.Contains(s, "${") && (bad != nil || u.Scheme != "https" || strings.Trim(u.Path, "/") == "") {
		err = errors.New(`must be an https URL with a path, since issuers accept no other; write "https://host/client.json"`)
	}
	return s, err
}

// redirectURI reads the redirect URI of another client. What is no whole URL is that
// client's matter.
func (d urls) redirectURI(v hujson.Value) (string, error) {
	s, err := d.expanded(v)
	if err == nil && !d.missing.any() && !d.isWebURL(s) {
		s = ""
	}
	return s, err
}

// webURL reads a whole URL, or "" for the default.
func (d urls) webURL(v hujson.Value) (string, error) {
	s, err := d.address(v)
	if s == "" && v.Value.Kind() == '"' {
		err = nil
	}
	return s, err
}

// address reads a whole URL.
func (d urls) address(v hujson.Value) (string, error) {
	s, err := d.expanded(v)
	if err == nil && !d.missing.any() && !d.isWebURL(s) {
		err = errors.New(`must be a whole URL; write "https://host/path"`)
	}
	return s, err
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// maxPublicURL bounds "publicUrl", in bytes.
const maxPublicURL = 512

// prefix is what a path of the router may be: without escapes, so that it is the same in each
// request.
var prefix = lazy.Regexp(`^(/[A-Za-z0-9_~.-]*[A-Za-z0-9_~-][A-Za-z0-9_~.-]*)*$`)

// publicURL reads a URL by which browsers and clients elsewhere reach the router, or "" for
// none. A slash at its end is removed.
func (d urls) publicURL(v hujson.Value) (string, error) {
	s, err := d.bounded(maxPublicURL)(v)
	if err != nil || s == "" || d.env.asWritten && strings.Contains(s, "${") {
		return s, err
	}
	u, bad := url.Parse(s)
	if bad != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil || strings.ContainsAny(s, "?#") {
		return "", errors.New(`must be a whole URL without a user and a query; write "https://router.example"`)
	}
	path := strings.TrimSuffix(u.EscapedPath(), "/")
	switch {
	case strings.HasSuffix(path, "/mcp"), strings.Contains(path+"/", "/mcp/p/"):
		return "", errors.New(`must be the address of the router, not of one of its MCP paths; write it without "/mcp", like "https://router.example"`)
	case !prefix().MatchString(path):
		return "", errors.New(`must have a path of letters, digits and . _ ~ - between single slashes; write it like "https://router.example/tools"`)
	}
	return u.Scheme + "://" + u.Host + path, nil
}

// leadsElsewhere reports whether clients on other machines reach the router by the public URL: all
// but "" and URLs of this machine.
func leadsElsewhere(publicURL string) bool {
	u, err := url.Parse(publicURL)
	return err == nil && u.Host != "" && !isLoopback(u.Hostname())
}

// isWebURL reports whether s is a whole URL, as far as that is known before variables are
// expanded.
func (d urls) isWebURL(s string) bool {
	if (d.env.asWritten || len(d.references) > 0) && strings.Contains(s, "${") {
		return true
	}
	u, err := url.Parse(s)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != ""
}

// publicURLField returns the function that decodes "publicUrl".
func publicURLField(d *decoder, to *string) func(hujson.ObjectMember) {
	return func(m hujson.ObjectMember) {
		set(d, to, urls{&d.expander}.publicURL)(m)
		if leadsElsewhere(*to) {
			d.claim(m.Name.StartOffset, claim{kind: claimPublicURL, text: *to})
		}
	}
}

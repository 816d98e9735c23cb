// Package urls finds mistakes in URLs that people write into a configuration. Its errors
// complete a sentence that begins with the key, and show no part of a URL, which may be a secret. It
// is a leaf.
package urls

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"

	"github.com/mcp-metarouter/metarouter/internal/lazy"
)

// IsLoopback reports whether a host is this machine.
func IsLoopback(host string) bool {
	return strings.EqualFold(host, "localhost") || net.ParseIP(host).IsLoopback()
}

// LeadsElsewhere reports whether a valid URL, or "", leads to another machine.
func LeadsElsewhere(s string) bool {
	u, err := url.Parse(s)
	return err == nil && u.Host != "" && !IsLoopback(u.Hostname())
}

// Web checks a whole URL of http or https.
func Web(s string) error {
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return errors.New(`must be a whole URL; write "https://host/path"`)
	}
	return nil
}

// Document checks the URL of a client ID metadata document.
func Document(s string) error {
	if err := Web(s); err != nil {
		return err
	}
	if u, err := url.Parse(s); err != nil || u.Scheme != "https" || strings.Trim(u.Path, "/") == "" {
		return errors.New(`must be an https URL with a path, since issuers accept no other; write "https://host/client.json"`)
	}
	return nil
}

// Resource checks the identifier of a resource.
func Resource(s string) error {
	if u, err := url.Parse(s); err != nil || u.Scheme == "" || u.Fragment != "" {
		return errors.New(`must be a whole URI without a fragment, or false to send no resource parameter; write "https://host/path"`)
	}
	return nil
}

// Issuer checks the identifier of an issuer, which is not normalized: tokens must have the same
// bytes.
func Issuer(s string) error {
	if s == "" {
		return errors.New(`must be the issuer's URL; write it like "https://id.example.com", as its tokens name it in "iss"`)
	}
	if err := secure(s, `"https://id.example.com"`); err != nil {
		return err
	}
	switch {
	case strings.Contains(s, "?"):
		return errors.New(`must be the issuer's URL without a query; write it as its tokens name it in "iss"`)
	case strings.Contains(s, "/.well-known/"):
		return errors.New(`must be the issuer itself, not the address of its metadata; write it without "/.well-known/…", as its tokens name it in "iss"`)
	}
	return nil
}

// Keys checks the URL of the keys of an issuer.
func Keys(s string) error { return secure(s, `"https://id.example.com/keys"`) }

// secure checks a whole URL that others on the way can't answer: of https, or of this machine.
func secure(s, example string) error {
	u, err := url.Parse(s)
	switch {
	case err != nil || u.Hostname() == "" || u.User != nil || strings.ContainsAny(s, "# \\"):
		return fmt.Errorf("must be a whole URL without a user, a fragment and spaces; write it like %s", example)
	case u.Scheme == "http" && !IsLoopback(u.Hostname()), u.Scheme != "http" && u.Scheme != "https":
		return fmt.Errorf(`must begin with "https:", since others could change what a host elsewhere says without TLS; write it like %s`, example)
	}
	return nil
}

// prefix matches the paths that the router may have: without escapes, so that it is the same in each
// request.
var prefix = lazy.Regexp(`^(/[A-Za-z0-9_~.-]*[A-Za-z0-9_~-][A-Za-z0-9_~.-]*)*$`)

// Public reads a URL by which browsers and clients elsewhere reach the router. A slash at its end is
// removed.
func Public(s string) (string, error) {
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil || strings.ContainsAny(s, "?#") {
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

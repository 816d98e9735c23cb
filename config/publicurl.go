package config

import (
	"errors"
	"net/url"
	"strings"

	"github.com/tailscale/hujson"

	"github.com/mcp-metarouter/metarouter/internal/lazy"
)

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

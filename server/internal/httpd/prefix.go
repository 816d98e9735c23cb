package httpd

import (
	"net/http"
	"net/url"
	"strings"
)

// A proxy may serve the router below a path prefix, that of the public URL, and strip it from
// requests or not.

// prefixOf returns the path of the public URL, without a slash at the end.
func prefixOf(public string) string {
	u, err := url.Parse(public)
	if err != nil {
		return ""
	}
	return strings.TrimRight(u.Path, "/")
}

// cutPath returns the path below the prefix. It reports false if the path is not below it, or if
// there is no prefix.
func cutPath(path, prefix string) (rest string, ok bool) {
	rest, ok = strings.CutPrefix(path, prefix)
	if prefix == "" || !ok || rest != "" && rest[0] != '/' {
		return "", false
	}
	return rest, true
}

// unprefixed returns the request as without the prefix of the public URL. A path that is one of
// ours with the prefix as well is left as it is, unless the prefix itself looks like MCP.
func (h *Handler) unprefixed(r *http.Request, rules *rules) *http.Request {
	rest, ok := cutPath(r.URL.Path, rules.prefix)
	if !ok {
		return r
	}
	whole := routeOf(r.URL.Path, h.isPage(r))
	if whole != routeElse && !(whole == routeMCP && strings.HasPrefix(rules.prefix, "/mcp/")) {
		return r
	}
	if rest == "" {
		rest = "/"
	}
	raw, _ := cutPath(r.URL.RawPath, rules.prefix)
	next, at := *r, *r.URL
	at.Path, at.RawPath = rest, raw
	next.URL = &at
	return &next
}

// at returns a path of ours as browsers know it.
func (x *exchange) at(path string) string { return x.rules.prefix + path }

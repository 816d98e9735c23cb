package httpd

import (
	"net/http"
	"net/url"
	"path"
	"strings"
)

// A proxy may serve the router below a path prefix, that of the public URL, and strip it from
// requests or not.

// prefixOf returns the path of the public URL, "" for none. A path such as //host or /a/../b is
// none: it could lead browsers elsewhere.
func prefixOf(public string) string {
	u, err := url.Parse(public)
	if err != nil || u.Path == "" || u.Path != path.Clean(u.Path) {
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

// unprefixed returns the request as without the prefix of the public URL, if it is one of ours then.
// A path that is one of ours with the prefix as well is left as it is, unless the prefix itself
// looks like MCP.
func unprefixed(r *http.Request, rules *rules, pages *http.ServeMux) *http.Request {
	rest, ok := cutPath(r.URL.Path, rules.prefix)
	likeMCP := strings.HasPrefix(rules.prefix, "/mcp/")
	if !ok || rest == "" && likeMCP {
		return r
	}
	raw, _ := cutPath(r.URL.RawPath, rules.prefix)
	next, at := *r, *r.URL
	at.Path, at.RawPath = rest, raw
	if rest == "" {
		at.Path = "/"
	}
	next.URL = &at
	whole, below := routeOf(r.URL.Path, isPage(pages, r)), routeOf(at.Path, isPage(pages, &next))
	if below == routeElse && !isDiscovery(at.Path) || whole != routeElse && !(whole == routeMCP && likeMCP) {
		return r
	}
	return &next
}

// at returns a path of ours as browsers know it.
func (r *rules) at(path string) string {
	prefix := url.URL{Path: r.prefix}
	return prefix.EscapedPath() + path
}

// isBare reports whether the browser asks for the page at the prefix without a slash behind it.
// Links of the page are relative, and would lead elsewhere.
func isBare(r *http.Request) bool {
	q := requestOf(r)
	asked, err := url.ParseRequestURI(r.RequestURI) // as it was before unprefixed
	return err == nil && q.rules.prefix != "" && r.URL.Path == "/" && asked.Path == q.rules.prefix
}

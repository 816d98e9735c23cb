package httpd

import (
	"slices"
	"strings"
)

// profilePrefix begins the paths that name a profile: /mcp/p/NAME is as /mcp, and
// /mcp/p/NAME/<method> as /mcp/<method>. There is no method of the name p.
const profilePrefix = "/mcp/p/"

// splitProfile returns the profile that a path names, "" if it names none, and the path without
// it.
func splitProfile(path string) (profile, rest string) {
	named, ok := strings.CutPrefix(path, profilePrefix)
	if !ok {
		return "", path
	}
	profile, method, more := strings.Cut(named, "/")
	switch {
	case profile == "":
		return "", path
	case more:
		return profile, "/mcp/" + method
	}
	return profile, "/mcp"
}

// isProfileName reports whether a profile may have the name: up to 32 of a-z, 0-9 and the hyphen.
func isProfileName(name string) bool {
	if name == "" || len(name) > 32 {
		return false
	}
	for i := range len(name) {
		if c := name[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
			return false
		}
	}
	return true
}

// views are the router as clients see it.
type views struct {
	*Backends
	standard *Backend // of clients that have chosen no profile
}

// of returns the router for a client that has chosen the profile of the URL and that of
// its token; "" is none. reads says that it may use only what just reads. It reports false if one
// of them does not exist, or if both together, or with those that all clients have, allow no
// server: a client can't find out which profiles there are.
func (v *views) of(url, token string, reads bool) (*Backend, bool) {
	if url != "" && !isProfileName(url) {
		return nil, false // no path can name a union of profiles, nor what only reads
	}
	if reads {
		return v.reading(url, token)
	}
	switch {
	case url == "" && token == "":
		return v.standard, true
	case url == "" || url == token:
		return v.Of(token)
	case token == "" && !v.Limited:
		return v.Of(url)
	case token == "":
		b, ok := v.Of(url)
		return b, ok && len(b.Router.Servers()) > 0
	}
	b, ok := v.Of(url, token)
	return b, ok && len(b.Router.Servers()) > 0
}

// reading is of for a client that may use only what just reads.
func (v *views) reading(url, token string) (*Backend, bool) {
	if v.ReadOnly == "" {
		return nil, false
	}
	chosen := []string{v.ReadOnly}
	for _, profile := range []string{url, token} {
		if profile != "" && !slices.Contains(chosen, profile) {
			chosen = append(chosen, profile)
		}
	}
	b, ok := v.Of(chosen...)
	return b, ok && (url == "" || url == token || len(b.Router.Servers()) > 0)
}

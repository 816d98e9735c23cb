package httpd

import (
	"slices"
	"strings"

	"github.com/mcp-metarouter/metarouter/server/internal/identity"
)

// splitProfile returns the profile that a path names, which may be "", and the path without
// it.
func splitProfile(path string) (profile, rest string) {
	named, ok := strings.CutPrefix(path, identity.ProfilePrefix)
	profile, method, more := strings.Cut(named, "/")
	switch {
	case !ok || profile == "":
		return "", path
	case more:
		return profile, "/mcp/" + method
	}
	return profile, "/mcp"
}

// views are the router as clients see it.
type views struct {
	*Backends
	standard *Backend // of clients that have chosen no profile
}

// of returns the router for a client that has chosen the profile of the URL and the one of
// its token; may be "". reads says that it may use only tools that just read. It reports false if one
// of them does not exist, or if both together, or with those that all clients have, allow no
// server: a client can't find out which profiles there are.
func (v *views) of(url, token string, reads bool) (*Backend, bool) {
	var chosen []string
	switch {
	case url != "" && !identity.IsProfileName(url), reads && v.ReadOnly == "":
		return nil, false // no path can name a union of profiles, nor the rule that allows only reading
	case url == "" && token == "" && !reads:
		return v.standard, true
	case reads:
		chosen = []string{v.ReadOnly}
	}
	for _, profile := range []string{url, token} {
		if profile != "" && !slices.Contains(chosen, profile) {
			chosen = append(chosen, profile)
		}
	}
	b, ok := v.Of(chosen...)
	narrowed := url != "" && url != token && (token != "" || v.Limited || reads)
	return b, ok && (!narrowed || len(b.Router.Servers()) > 0)
}

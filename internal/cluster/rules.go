package cluster

import (
	"slices"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/glob"
)

// rules are the lists of a configuration. They are replaced, not changed.
type rules struct {
	share, use []string
	trusted    map[string]bool
}

func rulesOf(c config.Cluster) *rules {
	r := &rules{share: c.Share, use: c.Use, trusted: make(map[string]bool)}
	for _, key := range c.Trusted {
		r.trusted[key] = true
	}
	return r
}

// matches reports whether a name matches any of the patterns.
func matches(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return glob.Match(p, name) })
}

// sameNetwork reports whether two configurations differ in their lists only, which need no new
// connection.
func sameNetwork(a, b config.Cluster) bool {
	return slices.Equal(a.URLs, b.URLs) && a.Name == b.Name && a.Node == b.Node && a.Creds == b.Creds && a.TLS == b.TLS
}

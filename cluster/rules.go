package cluster

import (
	"slices"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/glob"
)

// rules are the lists of a configuration. They are replaced, not changed.
type rules struct {
	share, use []glob.Pattern
	trusted    map[string]bool
}

func rulesOf(c config.Cluster) *rules {
	r := &rules{share: patterns(c.Share), use: patterns(c.Use), trusted: make(map[string]bool)}
	for _, key := range c.Trusted {
		r.trusted[key] = true
	}
	return r
}

// patterns returns the globs. A bad one, which package config reports, matches nothing.
func patterns(texts []string) (all []glob.Pattern) {
	for _, text := range texts {
		if p, err := glob.Parse(text); err == nil {
			all = append(all, p)
		}
	}
	return all
}

func (r *rules) shares(server string) bool { return matches(r.share, server) }
func (r *rules) uses(name string) bool     { return matches(r.use, name) }

func matches(patterns []glob.Pattern, name string) bool {
	return slices.ContainsFunc(patterns, func(p glob.Pattern) bool { return p.Match(name) })
}

// sameNetwork reports whether two configurations differ in their lists only, which need no new
// connection.
func sameNetwork(a, b config.Cluster) bool {
	return slices.Equal(a.URLs, b.URLs) && a.Name == b.Name && a.Node == b.Node && a.Creds == b.Creds && a.TLS == b.TLS
}

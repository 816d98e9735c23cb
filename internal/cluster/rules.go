package cluster

import (
	"slices"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/glob"
)

// rules are the lists of a configuration. They are replaced, not changed.
type rules struct {
	share, use patterns
	trusted    map[string]bool
}

func rulesOf(c config.Cluster) *rules {
	r := &rules{share: parse(c.Share), use: parse(c.Use), trusted: make(map[string]bool)}
	for _, key := range c.Trusted {
		r.trusted[key] = true
	}
	return r
}

type patterns []glob.Pattern

// parse returns the globs. A bad one, which package config reports, matches nothing.
func parse(texts []string) (all patterns) {
	for _, text := range texts {
		if p, err := glob.Parse(text); err == nil {
			all = append(all, p)
		}
	}
	return all
}

func (all patterns) match(name string) bool {
	return slices.ContainsFunc(all, func(p glob.Pattern) bool { return p.Match(name) })
}

// sameNetwork reports whether two configurations differ in their lists only, which need no new
// connection.
func sameNetwork(a, b config.Cluster) bool {
	return slices.Equal(a.URLs, b.URLs) && a.Name == b.Name && a.Node == b.Node && a.Creds == b.Creds && a.TLS == b.TLS
}

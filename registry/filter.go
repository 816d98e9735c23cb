package registry

import (
	"maps"
	"slices"
)

// A Filter decides which items of a snapshot a filtered one has; see [Snapshot.Filtered].
type Filter interface {
	// Server reports whether the snapshot has the server.
	Server(name string) bool

	// Item reports whether the snapshot has an item of such a server.
	Item(i Item) bool

	// Claim reports whether the snapshot has the claim of such a server to a URI.
	Claim(server, uri string) bool

	// Tool returns the replacement of a tool that the snapshot has: itself, or one with the same
	// ID. For the same tool it returns the same pointer.
	Tool(t *NormalizedTool) *NormalizedTool
}

// Filtered returns the catalog as f shows it. before is the last result of Filtered, or nil: if
// it has the same, it is returned again, else Version is one more. What the server lists and the
// router does not offer, and what a person last saw, is left out.
//
// Items and slices that the filter does not change are shared with s, so that a filtered snapshot
// needs at most a few pointers for each item.
func (s *Snapshot) Filtered(f Filter, before *Snapshot) *Snapshot {
	if before == nil {
		before = &Snapshot{}
	}
	next := &Snapshot{Version: before.Version + 1, servers: make(map[string]*Listing)}
	for name, l := range s.servers {
		if !f.Server(name) {
			continue
		}
		now := &Listing{Capabilities: l.Capabilities, Extensions: l.Extensions, Version: l.Version, Look: l.Look, Instructions: l.Instructions}
		now.Tools = keep(l.Tools, func(t *NormalizedTool) bool { return f.Item(Item{Tool: t}) }, f.Tool)
		now.Prompts = keep(l.Prompts, func(p *Prompt) bool { return f.Item(Item{Prompt: p}) }, nil)
		now.Resources = keep(l.Resources, func(r *Resource) bool { return f.Item(Item{Resource: r}) }, nil)
		now.Templates = keep(l.Templates, func(t *Template) bool { return f.Item(Item{Template: t}) }, nil)
		now.Skills = keep(l.Skills, func(s *Skill) bool { return f.Item(Item{Skill: s}) }, nil)
		if now.equal(*l) {
			now = l
		}
		if !now.equal(Listing{}) {
			next.servers[name] = now
		}
	}
	next.all = allOf(next.servers, s.all)
	next.claims = keepClaims(s.claims, f)
	if next.equal(before) {
		return before
	}
	return next
}

// keep returns the items for which has is true, or their replacements, in their order: the slice itself if these are all items,
// as they are. replace may be nil.
func keep[T comparable](some []T, has func(T) bool, replace func(T) T) []T {
	now := make([]T, 0, len(some))
	for _, one := range some {
		if !has(one) {
			continue
		}
		if replace != nil {
			one = replace(one)
		}
		now = append(now, one)
	}
	if slices.Equal(now, some) {
		return some
	}
	return now
}

// keepClaims returns the claims that the filter keeps: claims itself if it keeps all.
func keepClaims(claims Claims, f Filter) Claims {
	some := maps.Clone(claims)
	maps.DeleteFunc(some, func(uri string, c claim) bool { return !f.Server(c.Server) || !f.Claim(c.Server, uri) })
	if len(some) == len(claims) {
		return claims
	}
	return some
}

// equal reports whether both have the same.
func (s *Snapshot) equal(other *Snapshot) bool {
	return s.all.equal(other.all) &&
		maps.EqualFunc(s.servers, other.servers, func(a, b *Listing) bool { return a == b || a.equal(*b) }) &&
		maps.Equal(s.claims, other.claims)
}

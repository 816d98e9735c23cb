package registry

import "maps"

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
	tools := keep(s.all.Tools, f, func(t *NormalizedTool) Item { return Item{Tool: t} }, f.Tool)
	prompts := keep(s.all.Prompts, f, func(p *Prompt) Item { return Item{Prompt: p} }, nil)
	resources := keep(s.all.Resources, f, func(r *Resource) Item { return Item{Resource: r} }, nil)
	templates := keep(s.all.Templates, f, func(t *Template) Item { return Item{Template: t} }, nil)
	skills := keep(s.all.Skills, f, func(s *Skill) Item { return Item{Skill: s} }, nil)
	of := func(i items) items {
		return items{tools.of(i.Tools), prompts.of(i.Prompts), resources.of(i.Resources), templates.of(i.Templates), skills.of(i.Skills)}
	}
	next := &Snapshot{Version: before.Version + 1, all: of(s.all), servers: make(map[string]*Listing)}
	for name, l := range s.servers {
		if !f.Server(name) {
			continue
		}
		now := &Listing{items: of(l.items), Capabilities: l.Capabilities, Extensions: l.Extensions, Version: l.Version, Look: l.Look, Instructions: l.Instructions}
		if now.equal(*l) {
			now = l
		}
		if !now.equal(Listing{}) {
			next.servers[name] = now
		}
	}
	next.claims = keepClaims(s.claims, f)
	if next.equal(before) {
		return before
	}
	return next
}

// kept are the items of a snapshot that a filter keeps, and their replacements. It is nil if
// these are all items, as they are.
type kept[T keyed] map[T]T

func keep[T keyed](all []T, f Filter, item func(T) Item, replace func(T) T) kept[T] {
	k := make(kept[T], len(all))
	same := true
	for _, t := range all {
		_, server, _ := t.key()
		if !f.Server(server) || !f.Item(item(t)) {
			same = false
			continue
		}
		k[t] = t
		if replace != nil {
			k[t] = replace(t)
			same = same && k[t] == t
		}
	}
	if same {
		return nil
	}
	return k
}

// of returns the kept ones of some items, in their order: the slice itself if all are kept.
func (k kept[T]) of(some []T) []T {
	if k == nil {
		return some
	}
	n, same := 0, true
	for _, t := range some {
		now, ok := k[t]
		if ok {
			n++
		}
		same = same && now == t
	}
	if same {
		return some
	}
	now := make([]T, 0, n)
	for _, t := range some {
		if one, ok := k[t]; ok {
			now = append(now, one)
		}
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

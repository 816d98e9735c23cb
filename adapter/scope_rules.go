package adapter

import (
	"encoding/json"
	"reflect"

	"github.com/mcp-metarouter/metarouter/adapter/internal/fixed"
	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/profile"
	"github.com/mcp-metarouter/metarouter/registry"
)

// A judgement is the rules for the clients of a scope under one configuration. It is immutable.
type judgement struct {
	setup    *setup
	profiles map[string]config.Profile // that apply and exist, by name
	profile  string                    // what applies, joined by "+"; "" if nothing does
	rules    *profile.Rules            // nil if they allow everything, and fix and ask nothing
	encoded  json.RawMessage           // the rules as other nodes get them; nil without rules, and in no cluster
}

// judge returns the rules under the configuration in use.
func (s *Scope) judge() *judgement {
	now, last := s.parts.router.current.load(), s.judged.Load()
	if last != nil && last.setup == now {
		return last
	}
	next := s.judgementOf(now, last)
	s.judged.CompareAndSwap(last, next) // if another goroutine was first, the next call has its judgement
	return next
}

// judgementOf returns the rules under a configuration: those of last if the profiles that apply
// are the same.
func (s *Scope) judgementOf(now *setup, last *judgement) *judgement {
	if s.whole {
		return &judgement{setup: now}
	}
	all := now.config.Router.Profiles
	applying := profile.Applying(all, s.chosen)
	next := &judgement{setup: now, profile: joined(applying), profiles: profile.Existing(all, s.chosen)}
	if last != nil && last.profile == next.profile && reflect.DeepEqual(last.profiles, next.profiles) {
		next.rules = last.rules
	} else if rules := profile.Of(next.profiles, applying...); !rules.Everything() {
		next.rules = rules
	}
	if next.rules != nil && now.config.Router.Cluster != nil {
		next.encoded = profile.Encode(next.profiles, applying...)
	}
	return next
}

// server reports whether clients may know of the server, if it exists.
func (j *judgement) server(name string) bool { return j.rules == nil || j.rules.Server(name) }

// uri reports whether clients may read what a server has under a URI, if it exists.
func (j *judgement) uri(server, uri string) bool { return j.rules == nil || j.rules.URI(server, uri) }

// visible is what the clients of a scope may see at one moment. It is immutable.
type visible struct {
	*judgement
	base     *registry.Snapshot
	snapshot *registry.Snapshot                           // base itself without rules
	clones   map[*registry.NormalizedTool]*NormalizedTool // those with fixed arguments, by the tool of base
}

// now returns what the clients may see. It is made once for each catalog and each edit of the
// profiles.
func (s *Scope) now() *visible {
	if v := s.seen.Load(); v.isOf(s.judge(), s.parts.Snapshot()) {
		return v
	}
	s.building.Lock()
	defer s.building.Unlock()
	last, j, base := s.seen.Load(), s.judge(), s.parts.Snapshot()
	if last.isOf(j, base) {
		return last // another goroutine has made it
	}
	next := last.next(j, base)
	s.seen.Store(next)
	return next
}

// isOf reports whether v is what the judgement lets see of a catalog. Nil is not.
func (v *visible) isOf(j *judgement, base *registry.Snapshot) bool {
	return v != nil && v.judgement == j && v.base == base
}

// next returns what the judgement lets see of a catalog, after v, which may be nil.
func (v *visible) next(j *judgement, base *registry.Snapshot) *visible {
	next := &visible{judgement: j, base: base, snapshot: base}
	if j.rules == nil {
		return next
	}
	if v == nil {
		v = new(visible)
	}
	if v.base == base && v.judgement.rules == j.rules {
		next.snapshot, next.clones = v.snapshot, v.clones
		return next
	}
	f := &filter{Rules: j.rules, before: v.clones, clones: make(map[*NormalizedTool]*NormalizedTool)}
	next.snapshot = base.Filtered(f, v.snapshot)
	next.clones = f.clones
	return next
}

// A filter is the rules as a filter of the catalog.
type filter struct {
	*profile.Rules
	before, clones map[*NormalizedTool]*NormalizedTool
}

// Claim implements [registry.Filter].
func (f *filter) Claim(server, uri string) bool { return f.URI(server, uri) || f.Name(server, uri) }

// Tool implements [registry.Filter]. The clone of a tool is the same as long as its fixed
// arguments are.
func (f *filter) Tool(t *NormalizedTool) *NormalizedTool {
	values := f.Fixed(t)
	if values == nil {
		return t
	}
	clone, ok := f.before[t]
	if !ok || string(clone.Fixed) != string(values) {
		clone = fixed.Tool(t, json.RawMessage(values))
	}
	f.clones[t] = clone
	return clone
}

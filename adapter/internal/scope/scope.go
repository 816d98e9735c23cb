// Package scope applies profiles: it filters the catalog and judges requests of clients. A name that is
// not allowed and one that does not exist have the same answer, since the answer depends on the
// profiles and the filtered catalog only.
package scope

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/classify"
	"github.com/mcp-metarouter/metarouter/internal/profile"
	"github.com/mcp-metarouter/metarouter/registry"
)

// A Router has the configuration and the catalog that a Scope limits.
type Router interface {
	// InUse returns the configuration in use, and a channel that is closed when another one is. The
	// channel is the same while the configuration is.
	InUse() (*config.Config, <-chan struct{})

	// Snapshot returns the whole catalog.
	Snapshot() *registry.Snapshot
}

// A Scope is the profiles that clients have chosen. It follows edits of the configuration, and
// remembers the filtered catalog. Its methods may be called by many goroutines at once.
type Scope struct {
	router Router
	chosen []string
	whole  bool // no profile limits it, not even "default"

	limits   atomic.Pointer[Limits]
	building sync.Mutex // one goroutine at a time replaces visible: that takes long for very many tools
	visible  atomic.Pointer[Visible]
}

// New returns the scope of clients that have chosen all of these profiles; see Scope of
// [adapter.Router].
func New(r Router, chosen ...string) *Scope { return &Scope{router: r, chosen: chosen} }

// Everything returns the scope without any limit, also if there is a profile "default".
func Everything(r Router) *Scope { return &Scope{router: r, whole: true} }

// Exists reports whether each chosen profile exists: of a union, one of its profiles. If one does
// not, the scope is empty.
func (s *Scope) Exists() bool {
	c, _ := s.router.InUse()
	return !slices.ContainsFunc(s.chosen, func(chosen string) bool { return !profile.Exists(c.Router.Profiles, chosen) })
}

// Limits are the rules for the clients of a scope under one configuration. They are immutable.
type Limits struct {
	Config   *config.Config
	Replaced <-chan struct{} // closed when another configuration is in use
	Profile  string          // the profiles that apply, joined by "+"
	Rules    *profile.Rules  // nil if they allow everything, fix and ask nothing, and no tool is held
	Encoded  json.RawMessage // the rules as other nodes get them; nil without rules, and in no cluster

	profiles map[string]config.Profile // that apply and exist, by name
	whole    func() *registry.Snapshot // the catalog now
}

// Limits returns the rules under the configuration in use.
func (s *Scope) Limits() *Limits {
	c, replaced := s.router.InUse()
	last := s.limits.Load()
	if last != nil && last.Replaced == replaced {
		return last
	}
	next := &Limits{Config: c, Replaced: replaced, whole: s.router.Snapshot}
	if !s.whole {
		next.choose(s.chosen, last)
	}
	s.limits.CompareAndSwap(last, next) // if another goroutine was first, the next call has its limits
	return next
}

// choose sets the rules of chosen profiles. It takes them from last, which may be nil, if the same
// profiles apply.
func (l *Limits) choose(chosen []string, last *Limits) {
	all := l.Config.Router.Profiles
	applying := profile.Applying(all, chosen)
	l.Profile, l.profiles = strings.Join(applying, "+"), profile.Existing(all, chosen)
	if last != nil && last.Rules != nil && last.Profile == l.Profile && reflect.DeepEqual(last.profiles, l.profiles) {
		l.Rules = last.Rules
	} else if rules := profile.Of(l.profiles, applying...); !rules.Everything() || slices.ContainsFunc(l.Config.Servers, func(s config.Server) bool { return s.NewTools == "hold" }) {
		l.Rules = rules
	}
	if l.Rules != nil && !l.Rules.Everything() && l.Config.Router.Cluster != nil {
		l.Encoded = profile.Encode(l.profiles, applying...)
	}
}

// Server reports whether clients may know of the server, if it exists.
func (l *Limits) Server(name string) bool { return l.Rules == nil || l.Rules.Server(name) }

// URI reports whether clients may read a URI of a server, if it exists.
func (l *Limits) URI(server, uri string) bool {
	return l.Rules == nil || l.Rules.URI(server, uri, l.whole().Offer(server).Skills...)
}

// Visible is the catalog for the clients of a scope at one moment. It is immutable.
type Visible struct {
	*Limits
	Snapshot *registry.Snapshot // the whole catalog if there are no rules

	base   *registry.Snapshot                                    // the whole catalog
	clones map[*registry.NormalizedTool]*registry.NormalizedTool // those with fixed arguments, by the tool of base
}

// Visible returns the catalog for the clients now. It is made once for each whole catalog and each
// edit of the profiles.
func (s *Scope) Visible() *Visible {
	if v := s.visible.Load(); v.isOf(s.Limits(), s.router.Snapshot()) {
		return v
	}
	s.building.Lock()
	defer s.building.Unlock()
	last, limits, base := s.visible.Load(), s.Limits(), s.router.Snapshot()
	if last.isOf(limits, base) {
		return last // another goroutine has made it
	}
	next := last.next(limits, base)
	s.visible.Store(next)
	return next
}

// isOf reports whether v is the whole catalog base under the limits. Nil is not.
func (v *Visible) isOf(l *Limits, base *registry.Snapshot) bool {
	return v != nil && v.Limits == l && v.base == base
}

// next returns the whole catalog base under the limits. It follows v, which may be nil.
func (v *Visible) next(l *Limits, base *registry.Snapshot) *Visible {
	next := &Visible{Limits: l, base: base, Snapshot: base}
	if l.Rules == nil {
		return next
	}
	if v == nil {
		v = new(Visible)
	}
	if v.base == base && v.Limits.Rules == l.Rules {
		next.Snapshot, next.clones = v.Snapshot, v.clones
		return next
	}
	f := &filter{Rules: l.Rules, base: base, before: v.clones, clones: make(map[*registry.NormalizedTool]*registry.NormalizedTool)}
	next.Snapshot = base.Filtered(f, v.Snapshot)
	next.clones = f.clones
	return next
}

// A filter is the rules as a [registry.Filter].
type filter struct {
	*profile.Rules
	base           *registry.Snapshot
	before, clones map[*registry.NormalizedTool]*registry.NormalizedTool
}

// Item implements [registry.Filter].
func (f *filter) Item(i registry.Item) bool {
	return f.Rules.Item(i, f.base.Offer(i.Server()).Skills...)
}

// Claim implements [registry.Filter].
func (f *filter) Claim(server, uri string) bool {
	return f.URI(server, uri, f.base.Offer(server).Skills...) || f.Name(server, uri)
}

// Tool implements [registry.Filter]. The clone of a tool is the same as long as its fixed
// arguments are.
func (f *filter) Tool(t *registry.NormalizedTool) *registry.NormalizedTool {
	values := f.Fixed(t)
	if values == nil {
		return t
	}
	clone, ok := f.before[t]
	if !ok || string(clone.Fixed) != string(values) {
		clone = withFixed(t, json.RawMessage(values))
	}
	f.clones[t] = clone
	return clone
}

// Classifier returns the classifier without capability tags that no visible tool has.
func (s *Scope) Classifier(whole *classify.Classifier) *classify.Classifier {
	v := s.Visible()
	if v.Rules == nil {
		return whole
	}
	return whole.Within(v.Snapshot.Capabilities())
}

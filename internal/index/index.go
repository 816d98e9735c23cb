// Package index finds the items of a registry by their words.
//
// They are in bleve, in memory, scored by BM25. The first search makes the index, unless
// there are many items. [Indexes.Run] makes that index, and updates each after every change of
// the registry; after many updates it makes bleve's index again. A search that comes earlier
// does the rest of the update itself, so that it always sees the snapshot that was current when
// it began. One catalog has one ranking, whatever was updated before.
//
// A search looks at a [Collection]: each item as words, and how common each word is. Tools have
// a collection of their own ([Indexes.Tools]), so that the words of other items do not affect
// their ranking ([Indexes.Others]).
package index

import (
	"context"
	"errors"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/registry"
)

// Indexes are the indexes of a registry: one of its tools, one of its other items. Their
// methods may be called by many goroutines at once.
type Indexes struct {
	registry *registry.Registry
	tools    *index
	others   *index // of prompts, resources, templates and skills
}

// New returns the indexes of a registry. It starts nothing until the first search or
// [Indexes.Run]; from then on [Indexes.Close] must be called, which Run does when it returns.
func New(r *registry.Registry) *Indexes {
	return &Indexes{registry: r, tools: newIndex(toolItems), others: newIndex(otherItems)}
}

// awaitsSearch reports whether the index waits with the snapshot for its first search.
func (x *index) awaitsSearch(s *registry.Snapshot) bool {
	return !x.searched.Load() && len(x.items(s)) <= maxUnsearched
}

// maxUnsearched is how many items an index waits with for its first search: many clients never
// search. To index 1,000 tools takes about 130 ms on two cores.
const maxUnsearched = 500

// Run updates the indexes after each change until ctx ends, and then closes them.
// Searches are right without it, but slow after a change and slower after many.
func (x *Indexes) Run(ctx context.Context, log *zap.Logger) error {
	for {
		changed := x.registry.Changed()
		now := x.registry.Snapshot()
		for _, index := range []*index{x.tools, x.others} {
			if index.awaitsSearch(now) {
				continue
			}
			if _, err := index.catchUp(ctx, now); err != nil && ctx.Err() == nil {
				log.Error("index the catalog", zap.Error(err))
			}
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return x.Close()
		}
	}
}

// Close waits until no index is written, and frees them. Later searches fail.
func (x *Indexes) Close() error { return errors.Join(x.tools.close(), x.others.close()) }

// Tools returns the tools as words, once the index has caught up with the snapshot that
// is current now, or the error of ctx if that ends first.
func (x *Indexes) Tools(ctx context.Context) (*Collection, error) {
	return x.tools.current(ctx, x.registry)
}

// Others is [Indexes.Tools] for prompts, resources, templates and skills. The kind of an item is
// its one capability, so that a search can ask for kinds; a template has the one of a
// resource, too.
func (x *Indexes) Others(ctx context.Context) (*Collection, error) {
	return x.others.current(ctx, x.registry)
}

// toolItems returns the tools of a snapshot that models may see.
func toolItems(s *registry.Snapshot) []registry.Item {
	items := make([]registry.Item, 0, len(s.Tools()))
	for _, t := range s.Tools() {
		if t.ForModels() {
			items = append(items, registry.Item{Tool: t})
		}
	}
	return items
}

// otherItems returns all items of a snapshot but the tools, by docID.
func otherItems(s *registry.Snapshot) []registry.Item {
	items := make([]registry.Item, 0, len(s.Prompts())+len(s.Resources())+len(s.Templates())+len(s.Skills()))
	for _, p := range s.Prompts() {
		items = append(items, registry.Item{Prompt: p})
	}
	for _, r := range s.Resources() {
		items = append(items, registry.Item{Resource: r})
	}
	for _, skill := range s.Skills() {
		items = append(items, registry.Item{Skill: skill})
	}
	for _, t := range s.Templates() {
		items = append(items, registry.Item{Template: t})
	}
	return items
}

// docID returns the item's key among all that are in one index.
func docID(i registry.Item) string {
	if i.Tool != nil {
		return i.Tool.ID
	}
	return i.Kind() + " " + i.ID()
}

// tags returns the tags that narrow searches: a tool's capabilities, or the kind of
// another item.
func tags(i registry.Item) []string {
	switch {
	case i.Tool != nil:
		return i.Tool.Capabilities
	case i.Template != nil:
		return []string{registry.KindResource, registry.KindTemplate}
	}
	return []string{i.Kind()}
}

package index

import (
	"bytes"
	"cmp"
	"slices"
	"strings"

	"github.com/mcp-metarouter/metarouter/registry"
)

// A Subset is the items of a collection that a filtered catalog has. The zero value has all items
// of any collection.
type Subset struct {
	collection *Collection
	catalog    *registry.Snapshot
	set        []bool      // by index in the collection; nil has all
	count      int         // how many items there are
	part       *Collection // of the subset alone; nil if it is not small
}

// Within returns the items that the catalog has, too: it has the item itself, or a tool that a
// profile made of it. A nil catalog has all.
func (c *Collection) Within(catalog *registry.Snapshot) Subset {
	if catalog == nil || catalog == c.Snapshot {
		return Subset{collection: c, count: len(c.all)}
	}
	s := Subset{collection: c, catalog: catalog}
	if s.set, s.count = c.setOf(catalog); s.count <= maxPart {
		s.part = c.partOf(s.set)
	}
	return s
}

// Collection returns the collection that says how rare words are in the subset, and how long its
// items. If they are few, it is one of them alone, so that nothing of the others tells in a
// score; else it is the whole collection, of which they are a fair sample.
func (s Subset) Collection() *Collection { return cmp.Or(s.part, s.collection) }

// Len returns how many items there are; 0 for the zero value.
func (s Subset) Len() int { return s.count }

// Has reports whether the item is one of them.
func (s Subset) Has(d *Document) bool {
	if s.set == nil {
		return true
	}
	i, ok := slices.BinarySearchFunc(s.collection.all, docID(d.Item), func(d *Document, id string) int {
		return strings.Compare(docID(d.Item), id)
	})
	return ok && s.collection.all[i] == d && s.set[i]
}

// All calls yield for each item, by ID, with its index in the collection.
func (s Subset) All(yield func(i int, d *Document) bool) {
	if s.collection == nil {
		return
	}
	for i, d := range s.collection.all {
		if (s.set == nil || s.set[i]) && !yield(i, d) {
			return
		}
	}
}

// Tool returns the tool as the catalog has it. It must be one of the items.
func (s Subset) Tool(t *registry.NormalizedTool) *registry.NormalizedTool {
	if s.catalog != nil {
		if theirs, ok := s.catalog.Tool(t.ID); ok {
			return theirs
		}
	}
	return t
}

// Correct is as for a [Collection], but for words that no item has.
func (s Subset) Correct(word string) string {
	if s.part != nil || s.set == nil {
		return s.Collection().Correct(word)
	}
	return s.collection.correct(word, func(other string) bool {
		for _, d := range s.All {
			if _, ok := d.Term(other); ok {
				return true
			}
		}
		return false
	})
}

// setOf returns the items of the collection that the catalog has, and their number. Both are in the
// order of IDs.
func (c *Collection) setOf(catalog *registry.Snapshot) (set []bool, size int) {
	set = make([]bool, len(c.all))
	theirs := c.index.items(catalog)
	for i, d := range c.all {
		id := docID(d.Item)
		for len(theirs) > 0 && docID(theirs[0]) < id {
			theirs = theirs[1:]
		}
		if len(theirs) > 0 && isOf(theirs[0], d.Item) {
			set[i] = true
			size++
		}
	}
	return set, size
}

// isOf reports whether an item is another one, or made of it by a profile.
func isOf(i, original registry.Item) bool {
	if i == original {
		return true
	}
	t, of := i.Tool, original.Tool
	if t == nil || of == nil || t.Fixed == nil || t.ID != of.ID {
		return false
	}
	theirs := of.ServerSchema
	if theirs == nil {
		theirs = of.InputSchema
	}
	return bytes.Equal(t.ServerSchema, theirs) // bytes in one place are not compared
}

// maxPart is how many items a part has at most. Each search makes it: for 600 items that takes about 3 ms.
const maxPart = 600

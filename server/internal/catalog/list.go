package catalog

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"math"
	"slices"
	"strings"

	"github.com/mcp-metarouter/metarouter/internal/content"
	"github.com/mcp-metarouter/metarouter/internal/wire"
)

// pageSize is the most items that one page of a list holds, and pageBytes about the most bytes, unless one item has more.
// Readers of answers give up at 64 MiB.
const (
	pageSize  = 1000
	pageBytes = 8 << 20
)

// A List is the answer to one of the list requests, in the order of names. It shares the
// definitions with the catalog, and puts the names that clients see into them when it is read.
type List struct {
	member string // of the result
	items  []listing
}

// A listing is one item of a list.
type listing struct {
	name       string          // or URI, as clients see it
	definition json.RawMessage // as its server has it
	start, end int32           // where in the definition name is to stand; end is 0 if it stands there already
}

// newListing returns the item with the definition; member has the name or URI.
func newListing(definition json.RawMessage, member, name string) listing {
	start, end, ok := wire.Span(definition, member)
	switch {
	case !ok || end > math.MaxInt32:
		return listing{name: name, definition: Renamed(definition, member, name)}
	case wire.IsString(definition[start:end], name):
		return listing{name: name, definition: definition}
	}
	return listing{name, definition, int32(start), int32(end)}
}

// append appends the definition as clients see it.
func (l listing) append(dst []byte) []byte {
	if l.end == 0 {
		return append(dst, l.definition...)
	}
	dst = append(dst, l.definition[:l.start]...)
	dst = wire.AppendString(dst, l.name)
	return append(dst, l.definition[l.end:]...)
}

// size returns about how many bytes append appends: exactly so many if no character of the
// name is escaped.
func (l listing) size() int {
	if l.end == 0 {
		return len(l.definition)
	}
	return len(l.definition) - int(l.end-l.start) + len(l.name) + len(`""`)
}

func newList(member string, items []listing) List {
	slices.SortFunc(items, func(a, b listing) int { return cmp.Compare(a.name, b.name) })
	return List{member, items}
}

// Tokens returns how many tokens the list costs a model.
func (l List) Tokens() int {
	bytes := 0
	for _, item := range l.items {
		bytes += item.size()
	}
	return bytes / content.TokenBytes
}

// Equal reports whether the lists have the same names and definitions.
func (l List) Equal(other List) bool {
	return slices.EqualFunc(l.items, other.items, func(a, b listing) bool {
		return a.name == b.name && bytes.Equal(a.definition, b.definition)
	})
}

// Page returns the items behind the cursor, as the members of a list result that
// both eras have. A cursor is the name of the last item before the page, so that
// pages fit together though the list changes between them.
//
// It reports false if the cursor is not one of ours.
func (l List) Page(cursor string) (page json.RawMessage, ok bool) {
	start := 0
	if cursor != "" {
		b, err := base64.RawURLEncoding.DecodeString(cursor)
		last, ok := strings.CutPrefix(string(b), cursorPrefix)
		if err != nil || !ok {
			return nil, false
		}
		i, found := slices.BinarySearchFunc(l.items, last, func(i listing, name string) int { return cmp.Compare(i.name, name) })
		if start = i; found {
			start++
		}
	}
	end, size := start, 64
	for end < min(start+pageSize, len(l.items)) && (end == start || size+l.items[end].size() <= pageBytes) {
		size += l.items[end].size() + 1
		end++
	}
	page = append(make([]byte, 0, size), `{"`+l.member+`":[`...)
	for i, item := range l.items[start:end] {
		if i > 0 {
			page = append(page, ',')
		}
		page = item.append(page)
	}
	page = append(page, ']')
	if end < len(l.items) {
		page = append(page, `,"nextCursor":`...)
		page = wire.AppendString(page, base64.RawURLEncoding.EncodeToString([]byte(cursorPrefix+l.items[end-1].name)))
	}
	return append(page, '}'), true
}

const cursorPrefix = "after:"

package catalog

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"

	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/registry"
)

// pageSize is the most items that one page of a list holds.
const pageSize = 1000

// A List is what one of the list requests answers, in the order of names.
type List struct {
	member string // of the result
	items  []listing
}

// A listing is one item of a list.
type listing struct {
	name       string // or URI
	definition json.RawMessage
}

func newList(member string, items []listing) List {
	slices.SortFunc(items, func(a, b listing) int { return cmp.Compare(a.name, b.name) })
	return List{member, items}
}

// Tokens returns what the list costs a model.
func (l List) Tokens() int {
	bytes := 0
	for _, item := range l.items {
		bytes += len(item.definition)
	}
	return bytes / registry.BytesPerToken
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
		last, ok := decodeCursor(cursor)
		if !ok {
			return nil, false
		}
		i, found := slices.BinarySearchFunc(l.items, last, func(i listing, name string) int { return cmp.Compare(i.name, name) })
		if start = i; found {
			start++
		}
	}
	end := min(start+pageSize, len(l.items))
	size := 64
	for _, i := range l.items[start:end] {
		size += len(i.definition) + 1
	}
	page = append(make([]byte, 0, size), `{"`+l.member+`":[`...)
	for i, item := range l.items[start:end] {
		if i > 0 {
			page = append(page, ',')
		}
		page = append(page, item.definition...)
	}
	page = append(page, ']')
	if end < len(l.items) {
		page = append(page, `,"nextCursor":`...)
		page = wire.AppendString(page, encodeCursor(l.items[end-1].name))
	}
	return append(page, '}'), true
}

const cursorPrefix = "after:"

func encodeCursor(name string) string {
	return base64.RawURLEncoding.EncodeToString([]byte(cursorPrefix + name))
}

func decodeCursor(cursor string) (name string, ok bool) {
	b, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil {
		return "", false
	}
	return strings.CutPrefix(string(b), cursorPrefix)
}

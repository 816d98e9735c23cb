package approval

import (
	"bytes"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/mcp-metarouter/metarouter/internal/wire"
)

// maxCanonicalDepth is the depth to which values are looked into; deeper ones stay as they are
// written. It bounds the time, which grows with size times depth.
const maxCanonicalDepth = 32

// canonical returns a JSON value in one form: without white space, and with the members of
// each object in the order of their keys. Strings and numbers stay as they are written, and
// members of the same key in their order: servers may differ in how they read them, so that
// such values must not count as the same. A text that is no JSON stays as it is.
func canonical(value []byte) []byte { return appendCanonical(nil, value, 0) }

func appendCanonical(to, value []byte, depth int) []byte {
	value = bytes.TrimSpace(value)
	if depth == maxCanonicalDepth {
		return append(to, value...)
	}
	members, ok := membersOf(value)
	switch {
	case ok:
		return appendObject(to, members, depth+1)
	case wire.IsArray(value) && wire.Valid(value):
		return appendArray(to, value, depth+1)
	}
	return append(to, value...)
}

type member struct {
	key   string
	value []byte
}

// membersOf returns the members of an object; false for another value, or if a key is not
// Unicode, so that it would not differ from others of that kind.
func membersOf(value []byte) (all []member, ok bool) {
	unicode := true
	err := wire.Members(value, func(key string, v []byte) bool {
		all = append(all, member{key, v})
		unicode = !strings.ContainsRune(key, utf8.RuneError)
		return unicode
	})
	return all, err == nil && unicode
}

func appendObject(to []byte, members []member, depth int) []byte {
	slices.SortStableFunc(members, func(a, b member) int { return strings.Compare(a.key, b.key) })
	to = append(to, '{')
	for _, m := range members {
		to = append(wire.AppendString(to, m.key), ':')
		to = append(appendCanonical(to, m.value, depth), ',')
	}
	return append(bytes.TrimSuffix(to, []byte(",")), '}')
}

func appendArray(to, array []byte, depth int) []byte {
	to = append(to, '[')
	for v := range wire.Values(array) {
		to = append(appendCanonical(to, v, depth), ',')
	}
	return append(bytes.TrimSuffix(to, []byte(",")), ']')
}

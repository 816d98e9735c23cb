package jsonc

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/tailscale/hujson"
)

// Key returns the key of a member.
func Key(m hujson.ObjectMember) string { return unquoted(m.Name.Value.(hujson.Literal)) }

// unquoted returns the text of a string. Most have no escapes, and are not decoded.
func unquoted(lit hujson.Literal) string {
	if inner := lit[1 : len(lit)-1]; bytes.IndexByte(inner, '\\') < 0 && utf8.Valid(inner) {
		return string(inner)
	}
	return lit.String()
}

// Member returns the last member of an object with a key.
func Member(o *hujson.Object, key string) (found hujson.ObjectMember, ok bool) {
	for _, m := range o.Members {
		if Key(m) == key {
			found, ok = m, true
		}
	}
	return found, ok
}

// Text returns the text of a string. ok is false for other values.
func Text(v hujson.Value) (s string, ok bool) {
	lit, ok := v.Value.(hujson.Literal)
	if !ok || lit.Kind() != '"' {
		return "", false
	}
	return unquoted(lit), true
}

// Strings returns the strings of an array, without its other elements. ok is false for other values.
func Strings(v hujson.Value) (all []string, ok bool) {
	a, ok := v.Value.(*hujson.Array)
	if !ok {
		return nil, false
	}
	for _, e := range a.Elements {
		if s, ok := Text(e); ok {
			all = append(all, s)
		}
	}
	return all, true
}

// Compact returns v as JSON, without spaces and comments.
func Compact(v hujson.Value) json.RawMessage {
	v = v.Clone()
	v.Minimize()
	return v.Pack()
}

// AppendCanonical appends v without spaces and comments, and with sorted keys. A duplicate key
// stays, so that no value hides behind another.
func AppendCanonical(to []byte, v hujson.ValueTrimmed) []byte {
	switch v := v.(type) {
	case *hujson.Object:
		to = append(to, '{')
		type member struct {
			key   string
			value hujson.ValueTrimmed
		}
		members := make([]member, len(v.Members))
		for i, m := range v.Members {
			members[i] = member{Key(m), m.Value.Value}
		}
		slices.SortStableFunc(members, func(a, b member) int { return cmp.Compare(a.key, b.key) })
		for _, m := range members {
			to = append(strconv.AppendQuote(to, m.key), ':')
			to = append(AppendCanonical(to, m.value), ',')
		}
		return append(to, '}')
	case *hujson.Array:
		to = append(to, '[')
		for _, e := range v.Elements {
			to = append(AppendCanonical(to, e.Value), ',')
		}
		return append(to, ']')
	case hujson.Literal:
		if v.Kind() == '"' {
			return strconv.AppendQuote(to, v.String())
		}
		return append(to, v...)
	}
	return to
}

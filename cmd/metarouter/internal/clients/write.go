package clients

import (
	"maps"
	"slices"
	"strings"

	"github.com/tailscale/hujson"

	"github.com/mcp-metarouter/metarouter/internal/jsonc"
	"github.com/mcp-metarouter/metarouter/internal/wire"
)

// quoted is s as JSON, with <, > and & as they are.
func quoted(s string) string { return string(wire.Marshal(s)) }

// A field is a member of an object that is to be written.
type field struct {
	key   string
	value any // fields, an excerpt, a value as package hujson or package json reads it, or one that has such elements
}

// fields is an object.
type fields []field

// An excerpt is a value as it was written elsewhere, without the indentation that it had there and
// with lines indented by the unit.
type excerpt struct{ text, unit string }

// A style is how a document is written.
type style struct {
	newline string
	unit    string // of indentation
	compact bool   // all in one line
	spaced  bool   // with a space after colons
}

// alone is the style of an entry in no file, and oneLine of one that is shown in a line.
var (
	alone   = style{newline: "\n", unit: "  ", spaced: true}
	oneLine = style{compact: true, spaced: true}
)

// write returns a value as JSON in the style of the document: objects in lines of which the ones
// after the first begin with indent, and arrays in one line.
func (s style) write(value any, indent string) string {
	inLine := style{compact: true, spaced: s.spaced}
	switch v := value.(type) {
	case excerpt:
		lines := strings.Split(v.text, "\n")
		for i, line := range lines[1:] {
			depth := 0
			for v.unit != "" && strings.HasPrefix(line, v.unit) {
				line, depth = line[len(v.unit):], depth+1
			}
			lines[i+1] = indent + strings.Repeat(s.unit, depth) + line
		}
		return strings.Join(lines, s.newline)
	case fields:
		var members []string
		for _, f := range v {
			members = append(members, s.writeField(f, indent+s.unit))
		}
		if s.compact {
			return "{" + s.joined(members) + "}"
		}
		between := s.newline + indent + s.unit
		return "{" + between + strings.Join(members, ","+between) + s.newline + indent + "}"
	case map[string]any:
		var all fields
		for _, key := range slices.Sorted(maps.Keys(v)) {
			all = append(all, field{key, v[key]})
		}
		return s.write(all, indent)
	case *hujson.Object:
		var all fields
		for _, m := range v.Members {
			all = append(all, field{jsonc.Key(m), m.Value.Value})
		}
		return s.write(all, indent)
	case *hujson.Array:
		return inLine.writeArray(len(v.Elements), func(i int) any { return v.Elements[i].Value })
	case []string:
		return inLine.writeArray(len(v), func(i int) any { return v[i] })
	case []any:
		return inLine.writeArray(len(v), func(i int) any { return v[i] })
	case hujson.Literal:
		return string(v)
	}
	return string(wire.Marshal(value))
}

// writeField returns a field as a member of an object.
func (s style) writeField(f field, indent string) string {
	if s.spaced {
		return quoted(f.key) + ": " + s.write(f.value, indent)
	}
	return quoted(f.key) + ":" + s.write(f.value, indent)
}

// writeArray returns an array with n elements.
func (s style) writeArray(n int, element func(int) any) string {
	var all []string
	for i := range n {
		all = append(all, s.write(element(i), ""))
	}
	return "[" + s.joined(all) + "]"
}

// joined joins items of one line.
func (s style) joined(all []string) string {
	if s.spaced {
		return strings.Join(all, ", ")
	}
	return strings.Join(all, ",")
}

// nested returns objects with one key each, the last of which has the value.
func nested(value any, keys ...string) any {
	for _, key := range slices.Backward(keys) {
		value = fields{{key, value}}
	}
	return value
}

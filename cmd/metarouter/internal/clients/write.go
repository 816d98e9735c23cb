package clients

import (
	"slices"
	"strings"

	"github.com/tailscale/hujson"

	"github.com/mcp-metarouter/metarouter/internal/wire"
)

// quoted is s as JSON, with <, > and & as they are.
func quoted(s string) string { return string(wire.Marshal(s)) }

// A field is a member of an object that is to be written.
type field struct {
	key   string
	value any // fields, an excerpt, a value as package hujson reads it, or one that package json writes
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

// gap returns the space after a colon, and after a comma within a line.
func (s style) gap() hujson.Extra {
	if s.spaced {
		return hujson.Extra(" ")
	}
	return nil
}

// write returns a value as JSON in the style of the document.
func (s style) write(value any) string { return s.value(value, "").String() }

// value returns a value in the style of the document: objects in lines of which the ones
// after the first begin with indent, and arrays in one line.
func (s style) value(value any, indent string) (v hujson.Value) {
	switch said := value.(type) {
	case excerpt:
		return hujson.Value{Value: hujson.Literal(said.in(s, indent))} // any text of a literal is written as it is
	case fields:
		o := new(hujson.Object)
		for _, f := range said {
			o.Members = append(o.Members, hujson.ObjectMember{Name: hujson.Value{Value: hujson.Literal(quoted(f.key))}, Value: s.value(f.value, indent+s.unit)})
		}
		v.Value = o
	case hujson.ValueTrimmed:
		v = hujson.Value{Value: said}.Clone()
		v.Minimize()
	default:
		v, _ = hujson.Parse(wire.Marshal(value))
	}
	s.space(&v, indent)
	return v
}

// in returns the text in a document with a style.
func (e excerpt) in(s style, indent string) string {
	lines := strings.Split(e.text, "\n")
	for i, line := range lines[1:] {
		depth := 0
		for e.unit != "" && strings.HasPrefix(line, e.unit) {
			line, depth = line[len(e.unit):], depth+1
		}
		lines[i+1] = indent + strings.Repeat(s.unit, depth) + line
	}
	return strings.Join(lines, s.newline)
}

// space sets the white space in a value without comments.
func (s style) space(v *hujson.Value, indent string) {
	switch in := v.Value.(type) {
	case *hujson.Object:
		for i := range in.Members {
			m := &in.Members[i]
			if m.Value.BeforeExtra = s.gap(); !s.compact {
				m.Name.BeforeExtra = hujson.Extra(s.newline + indent + s.unit)
				in.AfterExtra = hujson.Extra(s.newline + indent)
			} else if i > 0 {
				m.Name.BeforeExtra = s.gap()
			}
			s.space(&m.Value, indent+s.unit)
		}
	case *hujson.Array:
		s.compact = true
		for i := range in.Elements {
			if i > 0 {
				in.Elements[i].BeforeExtra = s.gap()
			}
			s.space(&in.Elements[i], "")
		}
	}
}

// nested returns objects with one key each, the last of which has the value.
func nested(value any, keys ...string) any {
	for _, key := range slices.Backward(keys) {
		value = fields{{key, value}}
	}
	return value
}

package clients

import (
	"github.com/tailscale/hujson"

	"github.com/mcp-metarouter/metarouter/internal/wire"
)

// quoted is s as JSON, with <, > and & as they are.
func quoted(s string) string { return string(wire.Marshal(s)) }

// A field is a member of an object that is to be written.
type field struct {
	key   string
	value any // fields, a value as package hujson reads it, or one that package json writes
}

// fields is an object.
type fields []field

// A style is how a document is written.
type style struct {
	newline string
	unit    string // of indentation
}

// alone is the style of an entry in no file.
var alone = style{newline: "\n", unit: "  "}

// gap is the space after a colon, and after a comma within a line.
const gap = " "

// write returns a value as JSON in the style of the document.
func (s style) write(value any) string { return s.value(value, "").String() }

// value returns a value in the style of the document: objects in lines of which the ones
// after the first begin with indent, and arrays in one line.
func (s style) value(value any, indent string) (v hujson.Value) {
	switch said := value.(type) {
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

// space sets the white space in a value without comments.
func (s style) space(v *hujson.Value, indent string) {
	switch in := v.Value.(type) {
	case *hujson.Object:
		for i := range in.Members {
			m := &in.Members[i]
			m.Name.BeforeExtra, m.Value.BeforeExtra = hujson.Extra(s.newline+indent+s.unit), hujson.Extra(gap)
			s.space(&m.Value, indent+s.unit)
			in.AfterExtra = hujson.Extra(s.newline + indent)
		}
	case *hujson.Array:
		for i := range in.Elements {
			if i > 0 {
				in.Elements[i].BeforeExtra = hujson.Extra(gap)
			}
			s.space(&in.Elements[i], indent)
		}
	}
}

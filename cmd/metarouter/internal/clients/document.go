package clients

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/tailscale/hujson"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/jsonc"
)

// A document is a file of JSON, perhaps with comments, that is edited in place:
// whatever no edit names stays as it is, byte for byte.
type document struct {
	path string
	bom  []byte
	data []byte       // without bom, before all edits
	root hujson.Value // which the edits change

	serversKey string // under which package config finds servers; "" if they are in the root itself

	style
}

var bom = []byte("\ufeff")

// open reads a document. The error says where data is no object of JSON with
// comments. An empty file is an empty object.
func open(path string, data []byte) (*document, error) {
	d := &document{path: path, data: data, style: style{newline: "\n", unit: "  "}}
	if rest, ok := bytes.CutPrefix(data, bom); ok {
		d.bom, d.data = bom, rest
	}
	if len(bytes.TrimSpace(d.data)) == 0 {
		d.data = []byte("{\n}\n")
	}
	var err error
	if d.root, d.serversKey, err = config.Parse(path, d.data); err != nil {
		return nil, err
	}
	if bytes.Contains(d.data, []byte("\r\n")) {
		d.newline = "\r\n"
	}
	if members := object(&d.root).Members; len(members) > 0 {
		if indent, alone := d.indentAt(members[0].Name.StartOffset); alone && indent != "" {
			d.unit = indent
		}
	}
	return d, nil
}

// object is v as an object; nil for another value, or none.
func object(v *hujson.Value) *hujson.Object {
	if v == nil {
		return nil
	}
	o, _ := v.Value.(*hujson.Object)
	return o
}

// member finds the last member of that key, which is the one that counts.
func member(v *hujson.Value, key string) *hujson.ObjectMember {
	if o := object(v); o != nil {
		for i := len(o.Members) - 1; i >= 0; i-- {
			if jsonc.Key(o.Members[i]) == key {
				return &o.Members[i]
			}
		}
	}
	return nil
}

// An item is a member of an object or an element of an array.
type item struct {
	key   string // of a member
	value *hujson.Value
}

// items returns the members of an object or the elements of an array; nil for another value.
func items(v *hujson.Value) (all []item) {
	if v == nil {
		return nil
	}
	switch value := v.Value.(type) {
	case *hujson.Object:
		for i := range value.Members {
			all = append(all, item{jsonc.Key(value.Members[i]), &value.Members[i].Value})
		}
	case *hujson.Array:
		for i := range value.Elements {
			all = append(all, item{"", &value.Elements[i]})
		}
	}
	return all
}

// at follows keys from the root. It returns the value, nil if it is not there.
func (d *document) at(keys ...string) *hujson.Value {
	v := &d.root
	for _, key := range keys {
		m := member(v, key)
		if m == nil {
			return nil
		}
		v = &m.Value
	}
	return v
}

// indentAt is the whitespace that begins the line of a byte, and whether nothing else
// is before the byte.
func (d *document) indentAt(offset int) (indent string, alone bool) {
	line := d.data[bytes.LastIndexByte(d.data[:offset], '\n')+1 : offset]
	rest := bytes.TrimLeft(line, " \t")
	return string(line[:len(line)-len(rest)]), len(rest) == 0
}

// bytes returns the text with all edits.
func (d *document) bytes() []byte {
	text := d.root.Pack()
	return append(slices.Clone(d.bom), text[:len(text)-1]...) // without the newline that package jsonc adds
}

// written returns a value as it stands in its file, "" for nil.
func written(v *hujson.Value) string {
	if v == nil {
		return ""
	}
	return hujson.Value{Value: v.Value}.String()
}

// add puts fields behind the last member of an object. They go into its line, if it has members
// in one line and they have no object.
func (d *document) add(v *hujson.Value, all ...field) {
	o := object(v)
	inLine := isOneLine(v) && !slices.ContainsFunc(all, func(f field) bool { return object(new(d.value(f.value, ""))) != nil })
	for _, f := range all {
		m := hujson.ObjectMember{Name: hujson.Value{Value: hujson.Literal(quoted(f.key))}}
		name, last := &hujson.Value{}, &hujson.Value{} // of no member
		if n := len(o.Members); n > 0 {
			name, last = &o.Members[n-1].Name, &o.Members[n-1].Value
		}
		var indent string
		m.Name.BeforeExtra, m.Value.AfterExtra, indent = d.behind(v, string(name.BeforeExtra), last, &o.AfterExtra, inLine)
		m.Value.BeforeExtra, m.Value.Value = hujson.Extra(gap), d.value(f.value, indent).Value
		o.Members = append(o.Members, m)
	}
}

// addElement puts a string behind the last element of an array.
func (d *document) addElement(v *hujson.Value, said string) {
	a, e, last := v.Value.(*hujson.Array), hujson.Value{Value: hujson.Literal(quoted(said))}, &hujson.Value{}
	if n := len(a.Elements); n > 0 {
		last = &a.Elements[n-1]
	}
	e.BeforeExtra, e.AfterExtra, _ = d.behind(v, string(last.BeforeExtra), last, &a.AfterExtra, isOneLine(v))
	a.Elements = append(a.Elements, e)
}

// isOneLine reports whether an object or an array has items in one line.
func isOneLine(v *hujson.Value) bool {
	return len(items(v)) > 0 && !strings.Contains(written(v), "\n")
}

// behind returns the text before and behind the next item of an object or an array, and the indentation of the item's lines. last is the
// present last item, without a value if there is none, with the text before it. end is the text behind it: its comments come before the
// next item. inLine says that the item goes into the line of the others.
func (d *document) behind(v *hujson.Value, beforeLast string, last *hujson.Value, end *hujson.Extra, inLine bool) (before, after hujson.Extra, indent string) {
	base, _ := d.indentAt(v.StartOffset)
	indent = base + d.unit
	if line := strings.LastIndexByte(beforeLast, '\n'); line >= 0 && strings.TrimSpace(beforeLast[line:]) == "" {
		indent = beforeLast[line+1:]
	}
	lead := d.newline + indent
	said := string(*end)
	comments, closing := said, d.newline+base
	if inLine {
		comments, lead, indent = strings.TrimRight(said, " \t"), gap, base
		closing = said[len(comments):]
	} else if line := strings.LastIndexByte(said, '\n'); line >= 0 && strings.TrimSpace(said[line:]) == "" {
		comments = strings.TrimSuffix(said[:line], "\r")
		closing = said[len(comments):]
	}
	*end = hujson.Extra(closing)
	switch {
	case last.AfterExtra != nil: // there is a comma behind the last item, and is again
		after = hujson.Extra{}
	case inLine:
		comments, last.AfterExtra = "", hujson.Extra(comments)
	}
	return hujson.Extra(comments + lead), after, indent
}

// set replaces a value.
func (d *document) set(m *hujson.ObjectMember, value any) {
	indent, _ := d.indentAt(m.Name.StartOffset)
	m.Value.Value = d.value(value, indent).Value
}

// put sets the value at keys inside an object, and makes the objects on the way to it.
func (d *document) put(v *hujson.Value, value any, keys ...string) error {
	m, rest := member(v, keys[0]), keys[1:]
	if m != nil && len(rest) > 0 && object(&m.Value) != nil {
		return d.put(&m.Value, value, rest...)
	}
	if m != nil && len(rest) > 0 && m.Value.Value.Kind() != 'n' {
		return fmt.Errorf("%s: %q must be an object; write {…}", d.path, keys[0])
	}
	for _, key := range slices.Backward(rest) {
		value = fields{{key, value}}
	}
	if m != nil {
		d.set(m, value)
	} else {
		d.add(v, field{keys[0], value})
	}
	return nil
}

// remove takes members out of an object, each with its comma and its line. Comments before and behind them stay.
func (d *document) remove(v *hujson.Value, goes func(key string) bool) {
	o := object(v)
	if o == nil {
		return
	}
	lastKept := len(o.Members) - 1
	for lastKept >= 0 && goes(jsonc.Key(o.Members[lastKept])) {
		lastKept--
	}
	var kept []hujson.ObjectMember
	for i, m := range o.Members {
		if !goes(jsonc.Key(m)) {
			kept = append(kept, m)
			continue
		}
		next := &o.AfterExtra
		if i+1 < len(o.Members) {
			next = &o.Members[i+1].Name.BeforeExtra
		}
		*next = joined(string(m.Name.BeforeExtra), string(m.Value.AfterExtra)+string(*next), i > lastKept)
	}
	if n := len(o.Members) - 1; 0 <= lastKept && lastKept < n {
		last := &kept[len(kept)-1].Value
		if o.Members[n].Value.AfterExtra != nil { // a comma after the last one
			last.AfterExtra = append(hujson.Extra{}, last.AfterExtra...)
		} else {
			o.AfterExtra = slices.Concat(last.AfterExtra, o.AfterExtra)
			last.AfterExtra = nil
		}
	}
	o.Members = kept
}

// joined returns the text that is left where a member was, from the texts before and behind it. At the end, no member comes after it.
func joined(before, behind string, atEnd bool) hujson.Extra {
	start, rest := strings.TrimRight(before, " \t"), strings.TrimLeft(behind, " \t")
	line, startsLine := strings.CutPrefix(strings.TrimPrefix(rest, "\r"), "\n")
	switch {
	case startsLine && strings.HasSuffix(start, "\n"):
		return hujson.Extra(start + line)
	case atEnd:
		return hujson.Extra(start + behind)
	}
	return hujson.Extra(before + rest)
}

// serversAt returns the object of the servers, or nil. A file that has its servers under the
// key of another client is an error: it is the other client's file, or the client ignores
// the key.
func (d *document) serversAt(keys []string) (*hujson.Value, error) {
	switch v, key := d.at(keys...), d.serversKey; {
	case object(v) != nil:
		return v, nil
	case v == nil && len(keys) == 1 && key != "" && d.at(key) != nil:
		return nil, fmt.Errorf("%s has its servers under %q, where this client has them under %q; rename the key, or name the client whose file it is", d.path, key, keys[0])
	case v != nil && v.Value.Kind() != 'n': // null is as good as absent
		return nil, fmt.Errorf("%s: %q must be an object; write {\"a name\": {…}}", d.path, strings.Join(keys, "."))
	}
	return nil, nil
}

// putServers puts fields into the object at keys, which it makes if need be, in place of those that have the same keys.
func (d *document) putServers(keys []string, all ...field) error {
	_, err := d.serversAt(keys)
	for _, f := range all {
		if err == nil {
			err = d.put(&d.root, f.value, append(slices.Clone(keys), f.key)...)
		}
	}
	return err
}

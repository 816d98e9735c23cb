package clients

import (
	"bytes"
	"cmp"
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
	data []byte // without bom
	root hujson.Value

	style
	splices []splice
}

// A splice replaces a stretch of the data.
type splice struct {
	from, to int
	text     string
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
	if _, err := config.ServersKey(path, d.data); err != nil {
		return nil, err
	}
	root, err := jsonc.Parse(d.data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	d.root = root
	text := d.data[root.StartOffset:root.EndOffset]
	if bytes.Contains(d.data, []byte("\r\n")) {
		d.newline = "\r\n"
	}
	d.compact = !bytes.ContainsRune(text, '\n')
	d.spaced = !d.compact
	if members := object(&d.root).Members; len(members) > 0 {
		first := members[0]
		d.spaced = d.spaced || bytes.ContainsAny(d.data[first.Name.EndOffset:first.Value.StartOffset], " ")
		if indent, alone := d.indentAt(first.Name.StartOffset); alone && indent != "" {
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
	from  int    // where it begins
	value hujson.Value
}

// items returns the members of an object or the elements of an array; nil for another value.
func items(v *hujson.Value) (all []item) {
	if v == nil {
		return nil
	}
	switch value := v.Value.(type) {
	case *hujson.Object:
		for _, m := range value.Members {
			all = append(all, item{jsonc.Key(m), m.Name.StartOffset, m.Value})
		}
	case *hujson.Array:
		for _, e := range value.Elements {
			all = append(all, item{"", e.StartOffset, e})
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

// bytes returns the data with all edits done, and clears them.
func (d *document) bytes() []byte {
	slices.SortStableFunc(d.splices, func(a, b splice) int { return cmp.Compare(a.from, b.from) })
	out := slices.Clone(d.bom)
	done := 0
	for _, s := range d.splices {
		out = append(append(out, d.data[done:s.from]...), s.text...)
		done = s.to
	}
	d.splices = nil
	return append(out, d.data[done:]...)
}

func (d *document) splice(from, to int, text string) {
	d.splices = append(d.splices, splice{from, to, text})
}

// add puts fields behind the last member of an object. They go into its line, if it has members
// in one line and they have no object.
func (d *document) add(v *hujson.Value, all ...field) {
	inLine := len(items(v)) > 0
	for _, f := range all {
		_, isObject := f.value.(fields)
		inLine = inLine && !isObject
	}
	if object(v) != nil {
		d.insert(v, inLine, len(all), func(i int, indent string) string { return d.writeField(all[i], indent) })
	}
}

// insert puts n texts behind the last item of an object or an array: each in a line of its own,
// unless the document is one line, or inLine says so and the present items are in one line.
func (d *document) insert(v *hujson.Value, inLine bool, n int, text func(i int, indent string) string) {
	if n == 0 {
		return
	}
	present, closing, trailing := items(v), v.EndOffset-1, ""
	base, _ := d.indentAt(v.StartOffset)
	indent := base + d.unit
	if len(present) > 0 {
		last := present[len(present)-1]
		if own, alone := d.indentAt(last.from); alone {
			indent = own
		}
		if last.value.AfterExtra != nil {
			trailing = ","
		}
	}
	var texts []string
	isLines := bytes.ContainsRune(d.data[v.StartOffset:closing], '\n')
	if d.compact || inLine && !isLines {
		if len(present) > 0 {
			texts = []string{""} // so that a comma comes first, behind a comment on the last one
		}
		for i := range n {
			texts = append(texts, text(i, base))
		}
		where := len(bytes.TrimRight(d.data[:closing], " \t"))
		d.splice(where, where, strings.TrimPrefix(d.joined(texts), trailing)+trailing)
		return
	}
	if len(present) > 0 && trailing == "" {
		end := present[len(present)-1].value.EndOffset
		d.splice(end, end, ",")
	}
	for i := range n {
		texts = append(texts, d.newline+indent+text(i, indent))
	}
	where, end := closing, d.newline+base
	if _, alone := d.indentAt(closing); alone && isLines {
		where, end = bytes.LastIndexByte(d.data[:closing], '\n'), ""
		if bytes.HasSuffix(d.data[:where], []byte("\r")) {
			where--
		}
	}
	d.splice(where, where, strings.Join(texts, ",")+trailing+end)
}

// set replaces a value.
func (d *document) set(m *hujson.ObjectMember, value any) {
	indent, _ := d.indentAt(m.Name.StartOffset)
	d.splice(m.Value.StartOffset, m.Value.EndOffset, d.write(value, indent))
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
	if value = nested(value, rest...); m != nil {
		d.set(m, value)
	} else {
		d.add(v, field{keys[0], value})
	}
	return nil
}

// remove takes items out of an object or an array, and the lines that they leave empty. Comments
// before, between and after items stay.
func (d *document) remove(v *hujson.Value, goes func(item) bool) {
	all, lastKept := items(v), -1
	for i, m := range all {
		if !goes(m) {
			lastKept = i
		}
	}
	last := len(all) - 1
	comma := func(i int) (at int, is bool) {
		m := all[i].value
		return m.EndOffset + len(m.AfterExtra), i < last || m.AfterExtra != nil
	}
	for i, m := range all {
		if !goes(m) {
			if at, is := comma(i); is && i == lastKept && i < last && all[last].value.AfterExtra == nil {
				d.splice(at, at+1, "")
			}
			continue
		}
		from, to := m.from, m.value.EndOffset
		if at, is := comma(i); is && at == to {
			to++
		} else if is {
			d.splice(at, at+1, "")
		}
		after := to + len(d.data[to:]) - len(bytes.TrimLeft(d.data[to:], " \t"))
		indent, alone := d.indentAt(from)
		if rest := bytes.TrimLeft(d.data[after:], "\r"); alone && bytes.HasPrefix(rest, []byte("\n")) {
			from, to = from-len(indent), len(d.data)-len(rest)+1
		} else if i > lastKept { // the last kept item ends as if the removed one had never been there
			from = len(bytes.TrimRight(d.data[:from], " \t"))
		} else {
			to = after
		}
		d.splice(from, to, "")
	}
}

// servers returns the object of the servers, or nil. A file that has its servers under the
// key of another client is an error: it is the other client's file, or the client ignores
// the key.
func (d *document) servers(keys []string) (*hujson.Value, error) {
	v := d.at(keys...)
	if v == nil {
		if key, err := config.ServersKey(d.path, d.data); err == nil && len(keys) == 1 && key != "" && d.at(key) != nil {
			return nil, fmt.Errorf("%s has its servers under %q, where this client has them under %q; rename the key, or name the client whose file it is", d.path, key, keys[0])
		}
		return nil, nil
	}
	if object(v) != nil {
		return v, nil
	}
	if v.Value.Kind() != 'n' { // null is as good as absent
		return nil, fmt.Errorf("%s: %q must be an object; write {\"a name\": {…}}", d.path, strings.Join(keys, "."))
	}
	return nil, nil
}

// addServers puts fields into the object at keys, which it makes if need be.
func (d *document) addServers(keys []string, all ...field) error {
	v, err := d.servers(keys)
	if err != nil {
		return err
	}
	if v != nil {
		d.add(v, all...)
		return nil
	}
	return d.put(&d.root, fields(all), keys...)
}

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
	"github.com/mcp-metarouter/metarouter/internal/wire"
)

// A document is a file of JSON, perhaps with comments, that is edited in place:
// whatever no edit names stays as it is, byte for byte.
type document struct {
	path string
	bom  []byte
	data []byte // without bom
	root hujson.Value

	newline string
	unit    string // of indentation
	compact bool   // all in one line
	spaced  bool   // with a space after colons

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
	d := &document{path: path, data: data, newline: "\n", unit: "  "}
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

// object is v as an object, nil if it is none.
func object(v *hujson.Value) *hujson.Object {
	o, _ := v.Value.(*hujson.Object)
	return o
}

// member finds the last member of that key, which is the one that counts.
func member(v *hujson.Value, key string) *hujson.ObjectMember {
	o := object(v)
	if o == nil {
		return nil
	}
	for i := len(o.Members) - 1; i >= 0; i-- {
		if jsonc.Key(o.Members[i]) == key {
			return &o.Members[i]
		}
	}
	return nil
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

// A field is a key with what writes its value, whose lines after the first begin with
// indent.
type field struct {
	key   string
	value func(d *document, indent string) string
}

// add puts fields behind the last member of an object.
func (d *document) add(v *hujson.Value, fields ...field) {
	o := object(v)
	if len(fields) == 0 || o == nil {
		return
	}
	closing := v.EndOffset - 1
	base, _ := d.indentAt(v.StartOffset)
	indent, trailing := base+d.unit, ""
	if n := len(o.Members); n > 0 {
		last := &o.Members[n-1]
		if own, alone := d.indentAt(last.Name.StartOffset); alone {
			indent = own
		}
		if last.Value.AfterExtra != nil {
			trailing = ","
		} else {
			d.splice(last.Value.EndOffset, last.Value.EndOffset, ",")
		}
	}
	if d.compact {
		text := inLine(d, fields) + trailing
		if inner := d.data[v.StartOffset+1 : closing]; len(o.Members) > 0 && d.spaced && !bytes.HasSuffix(inner, []byte(" ")) {
			text = " " + text
		}
		d.splice(closing, closing, text)
		return
	}
	var text strings.Builder
	for i, f := range fields {
		if i > 0 {
			text.WriteString(",")
		}
		text.WriteString(d.newline + indent + d.text(f, indent))
	}
	text.WriteString(trailing)
	where := closing
	if _, alone := d.indentAt(closing); alone && bytes.ContainsRune(d.data[v.StartOffset:closing], '\n') {
		where = bytes.LastIndexByte(d.data[:closing], '\n')
		if bytes.HasSuffix(d.data[:where], []byte("\r")) {
			where--
		}
	} else {
		text.WriteString(d.newline + base)
	}
	d.splice(where, where, text.String())
}

// text is a field as a member of an object that is indented so far.
func (d *document) text(f field, indent string) string {
	colon := ":"
	if d.spaced {
		colon = ": "
	}
	return quoted(f.key) + colon + f.value(d, indent)
}

// inLine is fields as members of an object in one line.
func inLine(d *document, fields []field) string {
	var texts []string
	for _, f := range fields {
		texts = append(texts, d.text(f, ""))
	}
	return joined(d, texts)
}

// set replaces a value.
func (d *document) set(m *hujson.ObjectMember, value func(*document, string) string) {
	indent, _ := d.indentAt(m.Name.StartOffset)
	d.splice(m.Value.StartOffset, m.Value.EndOffset, value(d, indent))
}

// put sets the member of that key, or adds it.
func (d *document) put(v *hujson.Value, f field) {
	if m := member(v, f.key); m != nil {
		d.set(m, f.value)
		return
	}
	d.add(v, f)
}

// remove takes members out of an object, as removeItems does.
func (d *document) remove(v *hujson.Value, goes func(hujson.ObjectMember) bool) {
	var items []item
	for _, m := range object(v).Members {
		items = append(items, item{m.Name.StartOffset, m.Value, goes(m)})
	}
	d.removeItems(items)
}

// An item is a member of an object or an element of an array.
type item struct {
	from  int          // where it begins
	value hujson.Value // with which it ends
	goes  bool         // it is removed
}

// removeItems takes items out of an object or an array, of which it gets all, and the lines that
// they leave empty. Comments before, between and after items stay.
func (d *document) removeItems(items []item) {
	lastKept := -1
	for i, m := range items {
		if !m.goes {
			lastKept = i
		}
	}
	last := len(items) - 1
	comma := func(i int) (at int, is bool) {
		m := items[i].value
		return m.EndOffset + len(m.AfterExtra), i < last || m.AfterExtra != nil
	}
	for i, m := range items {
		if !m.goes {
			if at, is := comma(i); is && i == lastKept && i < last && items[last].value.AfterExtra == nil {
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
		} else if i > lastKept { // the last of what is kept ends as if the member had never been there
			if before := bytes.TrimRight(d.data[:from], " \t"); bytes.HasSuffix(before, []byte(",")) {
				from = len(before)
			}
		} else {
			to = after
		}
		d.splice(from, to, "")
	}
}

// quoted is s as JSON, with <, > and & as they are.
func quoted(s string) string { return string(wire.Marshal(s)) }

// joined joins what commas separate in one line.
func joined(d *document, elements []string) string {
	if d.spaced {
		return strings.Join(elements, ", ")
	}
	return strings.Join(elements, ",")
}

func text(s string) func(*document, string) string {
	return func(*document, string) string { return quoted(s) }
}

func list(elements []string) func(*document, string) string {
	return func(d *document, _ string) string {
		var all []string
		for _, e := range elements {
			all = append(all, quoted(e))
		}
		return "[" + joined(d, all) + "]"
	}
}

// fields is an object.
func fields(all ...field) func(*document, string) string {
	return func(d *document, indent string) string {
		if d.compact {
			return "{" + inLine(d, all) + "}"
		}
		var b strings.Builder
		for i, f := range all {
			if i > 0 {
				b.WriteString(",")
			}
			b.WriteString(d.newline + indent + d.unit + d.text(f, indent+d.unit))
		}
		return "{" + b.String() + d.newline + indent + "}"
	}
}

// raw is a value as it was written elsewhere, without the indentation that it had
// there and with lines indented by the unit given.
func raw(value, unit string) func(*document, string) string {
	return func(d *document, indent string) string {
		lines := strings.Split(value, "\n")
		for i, line := range lines[1:] {
			depth := 0
			for unit != "" && strings.HasPrefix(line, unit) {
				line, depth = line[len(unit):], depth+1
			}
			lines[i+1] = indent + strings.Repeat(d.unit, depth) + line
		}
		return strings.Join(lines, d.newline)
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
	if object(v) == nil && v.Value.Kind() != 'n' {
		return nil, fmt.Errorf("%s: %q must be an object; write {\"a name\": {…}}", d.path, strings.Join(keys, "."))
	}
	if object(v) == nil {
		return nil, nil // null is as good as absent
	}
	return v, nil
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
	return d.putIn(&d.root, keys, fields(all...))
}

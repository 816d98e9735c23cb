package script

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/mcp-metarouter/metarouter/internal/lazy"
	schemas "github.com/mcp-metarouter/metarouter/internal/schema"
	"github.com/mcp-metarouter/metarouter/internal/wire"
)

const (
	maxWork    = 8 << 20 // bytes of schemas
	maxNested  = 64
	maxMembers = 100 // of an object, a union, an enum or a tuple
	maxLiteral = 100 // bytes
	maxName    = 200 // bytes of a property's name
)

// A writer writes the types of a schema.
type writer struct {
	Detail
	sent   bool              // by the script, which may leave out members with a default
	root   []byte            // the target of "$ref"
	seen   map[string][]byte // targets of references that were resolved
	open   []string          // the references that lead to the schema
	nested int               // schemas in each other
	left   int               // bytes of the types
	work   int               // bytes of schemas, each time that they are read
}

func newWriter(d Detail) *writer { return &writer{Detail: d, left: d.Size, work: maxWork} }

// A node is a schema: the values of its keywords.
type node map[string]json.RawMessage

func read(schema []byte) node {
	n := node(maps.Collect(wire.All(schema)))
	if n["prefixItems"] == nil && wire.IsArray(n["items"]) { // as before 2020-12
		n["prefixItems"] = n["items"]
		delete(n, "items")
	}
	return n
}

// has reports whether the schema has one of the keywords.
func (n node) has(keywords ...string) bool {
	return slices.ContainsFunc(keywords, func(key string) bool { return n[key] != nil })
}

// types returns the names of the types that the schema names or implies.
func (n node) types() (names []string) {
	if name, ok := wire.String(n["type"]); ok {
		names = []string{name}
	} else if json.Unmarshal(n["type"], &names) != nil && n.has("properties", "additionalProperties", "patternProperties") {
		names = []string{"object"}
	} else if len(names) == 0 && n.has("items", "prefixItems") {
		names = []string{"array"}
	}
	return names
}

// of returns the type of a whole schema.
func (w *writer) of(schema []byte) string {
	w.root, w.seen = schema, make(map[string][]byte)
	return union(w.alternatives(schema, 0))
}

var anything = []string{"any"}

func union(all []string) string { return strings.Join(all, " | ") }

// group returns a type that can stand next to & and [].
func group(all []string) string {
	if len(all) == 1 {
		return all[0]
	}
	return "(" + union(all) + ")"
}

// alternatives returns the members of the union that is the type of a schema.
func (w *writer) alternatives(schema []byte, depth int) []string {
	w.work -= len(schema)
	w.left -= len("(any, any)")
	if w.work < 0 || w.left < 0 || w.nested >= maxNested {
		return anything
	}
	w.nested++
	defer func() { w.nested-- }()
	n := read(schema)
	var parts []string // the type is their intersection
	all := anything    // the last part
	add := func(part []string) {
		if text := group(part); text != "any" && !slices.Contains(parts, text) {
			parts, all = append(parts, text), part
		}
	}
	if n.has("const", "enum", "properties", "items", "prefixItems") {
		add(w.own(n, depth))
	}
	if ref, ok := wire.String(n["$ref"]); ok {
		add(w.target(ref, depth))
	}
	each(n["allOf"], func(part []byte) { add(w.alternatives(part, depth)) })
	for _, key := range []string{"anyOf", "oneOf"} {
		var choices []string
		each(n[key], func(one []byte) { choices = append(choices, w.alternatives(one, depth)...) })
		add(joined(choices))
	}
	switch {
	case len(parts) == 0: // "type" alone says less than any other part
		all = w.own(n, depth)
	case len(parts) > 1:
		all = []string{"(" + strings.Join(parts, " & ") + ")"}
	}
	if string(n["nullable"]) == "true" {
		all = joined(append(slices.Clip(all), "null"))
	}
	return all
}

// joined returns a union of alternatives, each once. A union of nothing, or with any, is any.
func joined(alternatives []string) (all []string) {
	for _, one := range alternatives {
		if !slices.Contains(all, one) {
			all = append(all, one)
		}
	}
	if len(all) == 0 || slices.Contains(all, "any") {
		return anything
	}
	return all
}

// each calls f with the first elements of an array.
func each(array []byte, f func(element []byte)) {
	n := 0
	_ = wire.Elements(array, func(element []byte) bool {
		f(element)
		n++
		return n < maxMembers
	})
}

// target returns the type of the schema to which a reference leads. Of a schema that contains itself,
// the inner type is any, with the schema's name in a comment.
func (w *writer) target(ref string, depth int) []string {
	if slices.Contains(w.open, ref) {
		if name := ref[strings.LastIndexByte(ref, '/')+1:]; identifier().MatchString(name) && len(name) <= maxLiteral {
			w.left -= len(name)
			return []string{"any /* " + name + " */"}
		}
		return anything
	}
	if _, ok := w.seen[ref]; !ok {
		w.seen[ref] = schemas.Target(w.root, ref, &w.work)
	}
	w.open = append(w.open, ref)
	defer func() { w.open = w.open[:len(w.open)-1] }()
	return w.alternatives(w.seen[ref], depth)
}

// own returns the type that a schema says itself, without other schemas for the same value.
func (w *writer) own(n node, depth int) (all []string) {
	if value, ok := w.literal(n["const"]); ok {
		return []string{value}
	}
	each(n["enum"], func(v []byte) {
		if value, ok := w.literal(v); ok {
			all = append(all, value)
		} else {
			all = append(all, "any")
		}
	})
	if all = joined(all); all[0] != "any" && len(all) < maxMembers {
		return all
	}
	all = nil
	for _, name := range n.types() {
		switch name {
		case "integer":
			name = "number"
		case "object":
			name = w.object(n, depth+1)
		case "array":
			name = w.array(n, depth+1)
		case "string", "number", "boolean", "null":
		default:
			return anything
		}
		all = append(all, name)
	}
	return joined(all)
}

// literal returns a JSON value as a type that only it has. It reports false for a long one.
func (w *writer) literal(value []byte) (string, bool) {
	var b bytes.Buffer
	if len(value) == 0 || len(value) > 2*maxLiteral || json.Compact(&b, value) != nil || b.Len() > maxLiteral || w.left < b.Len() {
		return "", false
	}
	w.left -= b.Len()
	return b.String(), true
}

var identifier = lazy.Regexp(`^[A-Za-z_$][\w$]*$`)

// object returns the type of an object.
func (w *writer) object(n node, depth int) string {
	if depth > w.Depth {
		return "Record<string, any>"
	}
	var required, members []string
	rest := " }"
	if _ = json.Unmarshal(n["required"], &required); w.sent {
		required = schemas.Required(n["properties"], n["required"])
	}
	for name, property := range wire.All(n["properties"]) {
		if len(members) == maxMembers || w.left < 0 {
			rest = "; /* and more */ }"
			break
		}
		if len(name) > maxName {
			continue
		}
		said, mark := name, "?: "
		if slices.Contains(required, name) {
			mark = ": "
		}
		if !identifier().MatchString(name) {
			said = string(wire.AppendString(nil, name))
		}
		said = w.comment(property) + said + mark
		w.left -= len(said)
		members = append(members, said+union(w.alternatives(property, depth)))
	}
	others := n["additionalProperties"]
	switch closed := string(others) == "false" && n["patternProperties"] == nil; {
	case len(members) == 0 && closed:
		return "{}"
	case len(members) == 0:
		return "Record<string, " + union(w.alternatives(others, depth)) + ">"
	case len(read(others)) > 0:
		members = append(members, "[name: string]: any")
	}
	return "{ " + strings.Join(members, "; ") + rest
}

// array returns the type of an array or a tuple.
func (w *writer) array(n node, depth int) string {
	if depth > w.Depth {
		return "any[]"
	}
	var first []string
	each(n["prefixItems"], func(item []byte) { first = append(first, union(w.alternatives(item, depth))) })
	others := group(w.alternatives(n["items"], depth)) + "[]"
	if len(first) == 0 {
		return others
	} else if n.has("items") && string(n["items"]) != "false" {
		first = append(first, "..."+others)
	}
	return "[" + strings.Join(first, ", ") + "]"
}

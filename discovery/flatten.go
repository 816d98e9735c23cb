package discovery

import (
	"slices"
	"strings"

	"github.com/tailscale/hujson"
)

// The applicators that the Anthropic API refuses at the top level of a schema.
var combiners = []string{"allOf", "anyOf", "oneOf"}

// flatten merges the target of a reference and the branches of allOf, anyOf and oneOf at the top level of a schema into
// one plain object schema. It allows everything that the original allows: it has all
// properties, and requires a property if every branch requires it. not and enum become a description. hint is a sentence for the tool's
// description on rules that the plain schema cannot express, or "".
func flatten(schema object) (hint string, flattened bool) {
	for _, keyword := range []string{"not", "enum"} { // which OpenAI's API refuses there
		if v := schema.get(keyword); v != nil {
			relax(schema, keyword, strings.TrimSpace(v.String()))
			flattened = true
		}
	}
	var merged []string
	for _, keyword := range append([]string{"$ref"}, combiners...) {
		if schema.get(keyword) != nil {
			merged = append(merged, keyword)
		}
	}
	if len(merged) == 0 {
		return "", flattened
	}
	m := merger{root: hujson.Value{Value: schema.Object}, targets: make(map[string]*hujson.Value), budget: 4 << 20}
	args := m.arguments(schema)
	for _, keyword := range merged {
		schema.remove(keyword)
	}
	properties, ok := asObject(schema.get("properties"))
	if !ok {
		properties = object{&hujson.Object{}}
		schema.put("properties", properties.Object)
	}
	own := properties.index()
	for _, name := range args.names {
		if _, ok := own[name]; !ok {
			properties.add(name, hujson.Literal(args.schemas[name])) // a literal packs as it is
		}
	}
	if len(args.required) > 0 {
		schema.put("required", array(args.required))
	}
	return args.hint, true
}

// arguments are the members that a schema describes.
type arguments struct {
	names    []string          // of the properties, in order
	schemas  map[string]string // of each property, as JSON
	required []string
	hint     string // rules that the other fields cannot express
}

// A merger reads arguments from combined schemas. Branches may refer to the root, and so
// to themselves; the budget, in bytes, ends that. An argument that it leaves out is still
// allowed.
type merger struct {
	root    hujson.Value
	targets map[string]*hujson.Value // of references
	budget  int
}

// spend reports whether n more bytes may be read. Each call costs a kilobyte in addition,
// so that there are at most a few thousand.
func (m *merger) spend(n int) bool {
	m.budget -= 1<<10 + n
	return m.budget >= 0
}

// arguments returns the arguments of a schema and its branches.
func (m *merger) arguments(schema object) arguments {
	args := arguments{schemas: make(map[string]string)}
	if !m.spend(16 * len(schema.Members)) { // they are read for each keyword
		return args
	}
	if own, ok := asObject(schema.get("properties")); ok {
		for i := range own.Members {
			v := hujson.Value{Value: schemaObject(&own.Members[i].Value)}
			if json := v.String(); m.spend(len(json)) {
				args.add(own.name(i), json)
			} else {
				break
			}
		}
	}
	if names, ok := texts(schema.get("required")); ok && m.spend(len(names)<<10) {
		args.required = names
	}
	if ref, ok := text(schema.get("$ref")); ok && strings.HasPrefix(ref, "#") {
		if target, ok := m.target(ref); ok {
			args.merge([]arguments{m.arguments(target)}, true)
		}
	}
	for _, keyword := range combiners {
		args.merge(m.branches(schema.get(keyword)), keyword == "allOf")
	}
	return args
}

// target returns the object that a reference to a place in the root leads to.
func (m *merger) target(ref string) (object, bool) {
	target, known := m.targets[ref]
	if !known && m.spend(4<<10+len(ref)) {
		target = m.root.Find(ref[1:])
		m.targets[ref] = target
	}
	return asObject(target)
}

// branches returns the arguments of each branch that an object can satisfy.
func (m *merger) branches(v *hujson.Value) []arguments {
	if v == nil {
		return nil
	}
	array, ok := v.Value.(*hujson.Array)
	if !ok {
		return nil
	}
	var all []arguments
	for i := range array.Elements {
		if m.budget < 0 {
			return append(all, arguments{}) // the rest may ask for anything
		}
		v := &array.Elements[i]
		if branch, ok := asObject(v); ok && branch.allowsObject() {
			all = append(all, m.arguments(branch))
		} else if v.Value.Kind() == 't' {
			all = append(all, arguments{})
		}
	}
	return all
}

// allowsObject reports whether an object can satisfy the schema's type.
func (o object) allowsObject() bool {
	v := o.get("type")
	if s, ok := text(v); ok {
		return s == "object"
	}
	types, ok := texts(v)
	return !ok || slices.Contains(types, "object")
}

// add adds a property, unless a has it.
func (a *arguments) add(name, schema string) {
	if _, known := a.schemas[name]; !known {
		a.names = append(a.names, name)
		a.schemas[name] = schema
	}
}

// merge adds branches, all of which hold, or one of them. A property that a has stays as it is, which allows no less; that
// of several branches is one of theirs.
func (a *arguments) merge(branches []arguments, all bool) {
	schemas := make(map[string][]string)
	for _, b := range branches {
		for _, name := range b.names {
			if !slices.Contains(schemas[name], b.schemas[name]) {
				schemas[name] = append(schemas[name], b.schemas[name])
			}
		}
	}
	var required []string
	for i, b := range branches {
		for _, name := range b.names {
			a.add(name, anyOf(schemas[name]))
		}
		for _, name := range b.required {
			lacks := func(b arguments) bool { return !slices.Contains(b.required, name) }
			if !slices.Contains(required, name) && (all || i == 0 && !slices.ContainsFunc(branches, lacks)) {
				required = append(required, name)
			}
		}
		if all {
			a.hint = strings.TrimSpace(a.hint + " " + b.hint)
		}
	}
	if !all {
		a.hint = strings.TrimSpace(a.hint + " " + choice(branches, required))
	}
	for _, name := range required {
		if !slices.Contains(a.required, name) {
			a.required = append(a.required, name)
		}
	}
}

// choice returns a sentence on which arguments go together, if each branch requires
// different ones in addition to those that all require.
func choice(branches []arguments, common []string) string {
	var sets []string
	for _, b := range branches {
		var own []string
		for _, name := range b.required {
			if !slices.Contains(common, name) {
				own = append(own, name)
			}
		}
		if len(own) == 0 {
			return "" // this branch asks for nothing more, so nothing more is needed
		}
		if set := strings.Join(own, ", "); !slices.Contains(sets, set) {
			sets = append(sets, set)
		}
	}
	if len(sets) < 2 {
		return ""
	}
	return "Give these arguments: " + strings.Join(sets, "; or ") + "."
}

// anyOf makes one schema of several.
func anyOf(schemas []string) string {
	if len(schemas) == 1 {
		return schemas[0]
	}
	return `{"anyOf":[` + strings.Join(schemas, ",") + `]}`
}

func array(names []string) *hujson.Array {
	var a hujson.Array
	for _, name := range names {
		a.Elements = append(a.Elements, hujson.Value{Value: hujson.String(name)})
	}
	return &a
}

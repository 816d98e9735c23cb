package schema

import (
	"bytes"
	"cmp"
	"encoding/json"
	"maps"
	"slices"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"github.com/mcp-metarouter/metarouter/internal/wire"
)

// Keys are names under which clients see some properties of a schema. The zero value has none.
type Keys struct {
	own, shown map[string]string // the schema's own names by the others, and the inverse
}

// NewKeys returns the Keys for the schema's own names by those that clients see.
func NewKeys(own map[string]string) Keys {
	k := Keys{own: own, shown: make(map[string]string, len(own))}
	for shown, theirs := range own {
		k.shown[theirs] = shown
	}
	return k
}

// Own returns a value of the schema with the schema's own keys in place of those that clients see. Only members that the
// schema declares where they are get another key, so that data with such keys stay. The error matches [ErrCostly]: then
// the value is as it was.
func (k Keys) Own(s *Schema, value json.RawMessage) (json.RawMessage, error) {
	return rekeyed(s, k.own, true, value)
}

// Shown is the inverse of Own.
func (k Keys) Shown(s *Schema, value json.RawMessage) (json.RawMessage, error) {
	return rekeyed(s, k.shown, false, value)
}

func rekeyed(s *Schema, names map[string]string, toOwn bool, value json.RawMessage) (json.RawMessage, error) {
	if len(names) == 0 || !wire.Valid(value) {
		return value, nil
	}
	r := rekeyer{names: names, toOwn: toOwn, steps: maxSteps + 4*len(value)}
	renamed := r.value([]*jsonschema.Schema{s.root}, value)
	if r.steps < 0 { // some keys are not renamed
		return value, costly("its keys take too many steps for this value")
	}
	return renamed, nil
}

// Outline returns a schema that declares the members that the properties of a schema name, at its top level only. It is for
// the keys of a schema that can't be compiled.
func Outline(raw json.RawMessage) *Schema {
	root := &jsonschema.Schema{Properties: make(map[string]*jsonschema.Schema)}
	for name := range wire.All(wire.Member(raw, "properties")) { // others have none
		root.Properties[name] = &jsonschema.Schema{}
	}
	return &Schema{root: root, partial: true}
}

// A rekeyer replaces keys of members that a schema declares. After its steps the rest of a value stays.
type rekeyer struct {
	names map[string]string
	toOwn bool // the schema has the new names, else the old ones
	steps int
}

// value returns the value, to which all these schemas may apply.
func (r *rekeyer) value(all []*jsonschema.Schema, value []byte) []byte {
	if value = bytes.TrimSpace(value); !wire.IsObject(value) && !wire.IsArray(value) {
		return value
	}
	r.steps -= 1 + len(value)/64
	if all = r.unfolded(all); r.steps < 0 || len(all) == 0 {
		return value
	}
	present := make(map[string]bool)
	for key := range wire.All(value) {
		present[key] = true
	}
	return rewrite(value, func(key string, v []byte) (string, []byte) {
		name, own := key, key
		if other, ok := r.names[key]; ok && r.steps >= 0 {
			if r.toOwn {
				own = other
			}
			if !present[other] && slices.ContainsFunc(all, func(s *jsonschema.Schema) bool { return r.declares(s, own) }) {
				name = other
			} else {
				own = key
			}
		}
		return name, r.value(r.inner(all, func(s *jsonschema.Schema) []*jsonschema.Schema { return membersAt(s, own) }), v)
	}, func(i int, v []byte) []byte {
		return r.value(r.inner(all, func(s *jsonschema.Schema) []*jsonschema.Schema { return itemsAt(s, i) }), v)
	})
}

// rewrite returns a valid object or array with the members or items that the functions return.
func rewrite(value []byte, member func(key string, v []byte) (string, []byte), item func(i int, v []byte) []byte) []byte {
	out := make([]byte, 0, len(value))
	if wire.IsObject(value) {
		out = append(out, '{')
		for key, v := range wire.All(value) {
			name, v := member(key, v)
			out = wire.AppendMember(out, name, v)
		}
		return append(out, '}')
	}
	out = append(out, '[')
	i := 0
	for v := range wire.Values(value) {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, item(i, v)...)
		i++
	}
	return append(out, ']')
}

// unfolded returns the schemas and those that they apply to the same value, each once.
func (r *rekeyer) unfolded(schemas []*jsonschema.Schema) (all []*jsonschema.Schema) {
	seen := make(map[*jsonschema.Schema]bool)
	add := func(parts []*jsonschema.Schema) {
		for _, part := range parts {
			if r.steps--; r.steps >= 0 && !seen[part] {
				seen[part] = true
				all = append(all, part)
			}
		}
	}
	add(schemas)
	for i := 0; i < len(all); i++ { // they grow
		add(sameValue(all[i]))
	}
	return all
}

// inner returns the schemas that at finds in all of them.
func (r *rekeyer) inner(all []*jsonschema.Schema, at func(*jsonschema.Schema) []*jsonschema.Schema) (inner []*jsonschema.Schema) {
	for _, s := range all {
		if r.steps--; r.steps < 0 {
			return nil
		}
		found := at(s)
		r.steps -= len(found)
		inner = append(inner, slices.DeleteFunc(found, isAbsent)...)
	}
	return inner
}

// declares reports whether a schema names a member: among its properties, or in a rule about members that are there.
func (r *rekeyer) declares(s *jsonschema.Schema, name string) bool {
	r.steps -= 1 + len(s.Required)/8
	return s.Properties[name] != nil || s.DependentSchemas[name] != nil || s.DependentRequired[name] != nil || s.Dependencies[name] != nil ||
		slices.Contains(s.Required, name)
}

// membersAt returns the schemas that a member may have, some of which may be nil. To match the patterns would take long,
// and would only tell which keys within the member are declared.
func membersAt(s *jsonschema.Schema, name string) []*jsonschema.Schema {
	if property := s.Properties[name]; property != nil {
		return []*jsonschema.Schema{property}
	}
	additional, _ := s.AdditionalProperties.(*jsonschema.Schema)
	return slices.AppendSeq([]*jsonschema.Schema{additional, s.UnevaluatedProperties}, maps.Values(s.PatternProperties))
}

// itemsAt returns the schemas of an item, some of which may be nil.
func itemsAt(s *jsonschema.Schema, i int) []*jsonschema.Schema {
	first, others := itemSchemas(s)
	if i < len(first) {
		others = first[i]
	}
	return []*jsonschema.Schema{others, s.Contains, s.UnevaluatedItems}
}

// Name returns the name under which clients see a property.
func (k Keys) Name(own string) string { return cmp.Or(k.shown[own], own) }

// of returns the fault with the names that clients see.
func (k Keys) of(f fault) fault {
	names := func(own []string) (all []string) {
		for _, one := range own {
			all = append(all, k.Name(one))
		}
		return all
	}
	f.path = slices.Clone(f.path)
	for i, name := range f.path {
		f.path[i] = k.Name(name)
	}
	switch what := f.kind.(type) {
	case *kind.Required:
		f.kind = &kind.Required{Missing: names(what.Missing)}
	case *kind.DependentRequired:
		f.kind = &kind.DependentRequired{Prop: k.Name(what.Prop), Missing: names(what.Missing)}
	case *kind.Dependency:
		f.kind = &kind.Dependency{Prop: k.Name(what.Prop), Missing: names(what.Missing)}
	}
	return f
}

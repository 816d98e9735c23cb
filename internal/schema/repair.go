package schema

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"github.com/mcp-metarouter/metarouter/internal/prose"
	"github.com/mcp-metarouter/metarouter/internal/wire"
)

const (
	maxRepairs = 10_000 // faults of a value that is repaired
	maxRounds  = 3      // strings of JSON within strings of JSON
	maxNamed   = 5      // places that the sentence of Repair names

	maxFilled = 1 << 20 // bytes of defaults in a round, since one may be for many objects
)

// Filled begins the clause of Repair's sentence that names members with defaults.
const Filled = "defaults were filled in"

// Repair returns the JSON value with strings that hold the JSON of an array or an object as these, where the schema wants one and
// nowhere a string, and with the defaults of required members, if no other one is missing; and a sentence that names the changes.
// The sentence is "" if nothing was done. The value returned need not fit: Validate says whether it does.
func (s *Schema) Repair(ctx context.Context, value json.RawMessage) (repaired json.RawMessage, how string) {
	var unquoted, filled []string
	for range maxRounds {
		wrong, v, err := s.compare(ctx, value)
		if err != nil || wrong == nil {
			break
		}
		faults := s.faults(wrong, maxRepairs)
		if len(faults) == maxRepairs {
			break
		}
		root, texts, members := s.edits(v, faults)
		if len(texts)+len(members) == 0 {
			break
		}
		value = root.apply(value)
		unquoted, filled = append(unquoted, texts...), append(filled, members...)
	}
	var done []string
	if len(unquoted) > 0 {
		done = append(done, "strings of JSON became values: "+prose.List(unquoted, maxNamed))
	}
	if len(filled) > 0 {
		done = append(done, Filled+": "+prose.List(filled, maxNamed))
	}
	return value, strings.Join(done, "; ")
}

// An edit is what a value becomes, and what its faults say.
type edit struct {
	parts   map[string]*edit // by name or index
	unquote bool             // a string becomes the value that it holds
	fill    defaults         // members that an object gets

	wanted []string // types
	other  bool     // a fault is about more than the type
}

// edits returns how to repair the faults of a value that can be repaired, and the names of the strings and members to edit.
func (s *Schema) edits(value any, faults []fault) (root *edit, unquoted, filled []string) {
	root = &edit{}
	for _, f := range faults {
		at, types := root.at(f.path), f.wants()
		at.wanted, at.other = append(at.wanted, types...), at.other || types == nil
	}
	left := maxFilled
	r := rekeyer{steps: maxSteps}
	for _, f := range faults {
		at := root.at(f.path)
		if f.fill != nil && left >= 0 {
			left -= len(wire.Marshal(f.fill))
			if at.fill == nil && left >= 0 { // of several branches, the first
				at.fill = f.fill
				for _, key := range slices.Sorted(maps.Keys(f.fill)) {
					filled = append(filled, place(append(slices.Clip(f.path), key)))
				}
			}
		}
		text, ok := valueAt(value, f.path).(string)
		if !ok || len(f.path) == 0 || at.unquote || at.other || slices.Contains(at.wanted, "string") || !holds(text, at.wanted) || s.takesString(&r, value, f.path) {
			continue
		}
		at.unquote = true
		unquoted = append(unquoted, place(f.path))
	}
	return root, unquoted, filled
}

// place names a place, in at most 100 bytes: there may be thousands, below a long name.
func place(path []string) string {
	const most = 100
	var name []byte
	for i, step := range path {
		if i > 0 {
			name = append(name, '.')
		}
		if name = append(name, step[:min(len(step), most)]...); len(name) > most {
			break
		}
	}
	return strings.ToValidUTF8(string(name[:min(len(name), most)]), "")
}

// valueAt returns the part of a decoded value at a place.
func valueAt(v any, path []string) any {
	for _, step := range path {
		switch of := v.(type) {
		case map[string]any:
			v = of[step]
		case []any:
			i, _ := strconv.Atoi(step)
			v = of[i]
		}
	}
	return v
}

// takesString reports whether a schema that may apply at a place allows strings by name, or that takes too many steps to know.
func (s *Schema) takesString(r *rekeyer, v any, path []string) bool {
	all := r.unfolded([]*jsonschema.Schema{s.root})
	for _, step := range path {
		at := func(s *jsonschema.Schema) []*jsonschema.Schema { return membersAt(s, step) }
		if _, list := v.([]any); list {
			i, _ := strconv.Atoi(step)
			at = func(s *jsonschema.Schema) []*jsonschema.Schema { return itemsAt(s, i) }
		}
		v = valueAt(v, []string{step})
		all = r.unfolded(r.inner(all, at))
	}
	isString := func(v any) bool { return typeOf(v) == "string" }
	return r.steps < 0 || slices.ContainsFunc(all, func(s *jsonschema.Schema) bool {
		return s.Types != nil && slices.Contains(s.Types.ToStrings(), "string") ||
			s.Enum != nil && slices.ContainsFunc(s.Enum.Values, isString) || s.Const != nil && isString(*s.Const)
	})
}

// wants returns which types the schema wants at the place of the fault, nil if the fault is another one.
func (f fault) wants() (types []string) {
	switch k := f.kind.(type) {
	case *kind.Type:
		return k.Want
	case *kind.Enum:
		for _, v := range k.Want {
			types = append(types, typeOf(v))
		}
	case *kind.Const:
		types = []string{typeOf(k.Want)}
	}
	return types
}

// typeOf returns the JSON type of a decoded value.
func typeOf(v any) string {
	switch v.(type) {
	case bool:
		return "boolean"
	case json.Number:
		return "number"
	case string:
		return "string"
	case []any:
		return "array"
	case map[string]any:
		return "object"
	}
	return "null"
}

// holds reports whether the text is the JSON of an object or an array, which is one of the types.
func holds(text string, types []string) bool {
	trimmed := []byte(strings.TrimSpace(text))
	return (wire.IsObject(trimmed) && slices.Contains(types, "object") || wire.IsArray(trimmed) && slices.Contains(types, "array")) && wire.Valid(trimmed)
}

// at returns the edit of a place, which it adds if there is no edit.
func (e *edit) at(path []string) *edit {
	for _, step := range path {
		next := e.parts[step]
		if next == nil {
			next = &edit{}
			if e.parts == nil {
				e.parts = make(map[string]*edit)
			}
			e.parts[step] = next
		}
		e = next
	}
	return e
}

// apply returns the edited JSON value. All bytes that the edit does not name remain.
func (e *edit) apply(value []byte) []byte {
	if text, ok := wire.String(value); e.unquote && ok {
		return []byte(strings.TrimSpace(text))
	}
	if value = bytes.TrimSpace(value); len(e.parts) == 0 && e.fill == nil || !wire.IsObject(value) && !wire.IsArray(value) {
		return value
	}
	part := func(step string, v []byte) []byte {
		if part := e.parts[step]; part != nil {
			return part.apply(v)
		}
		return v
	}
	value = rewrite(value, func(name string, v []byte) (string, []byte) { return name, part(name, v) },
		func(i int, v []byte) []byte { return part(strconv.Itoa(i), v) })
	if e.fill == nil || !wire.IsObject(value) {
		return value
	}
	value = bytes.TrimSuffix(value, []byte("}"))
	for _, name := range slices.Sorted(maps.Keys(e.fill)) {
		value = wire.AppendMember(value, name, part(name, wire.Marshal(e.fill[name])))
	}
	return append(value, '}')
}

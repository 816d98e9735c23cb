package schema

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"slices"
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
		e := evaluation{meter: meter{ctx: ctx}, most: maxRepairs, repairs: true}
		if err := e.run(s, value); err != nil || len(e.faults) >= maxRepairs {
			break
		}
		root, texts, members := e.edits()
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

// An edit is what a value becomes.
type edit struct {
	parts   map[place]*edit
	unquote bool     // a string becomes the value that it holds
	fill    defaults // members that an object gets
}

// edits returns how to repair the faults of a value that can be repaired, and the names of the strings and members to edit.
func (e *evaluation) edits() (root *edit, unquoted, filled []string) {
	root = &edit{}
	keep := make(map[string]bool) // places of strings that stay
	for _, path := range e.strings {
		keep[fault{path: path}.place()] = true
	}
	wanted := make(map[string][]string) // types
	for _, f := range e.faults {
		if types := f.wants(); slices.Contains(types, "string") || types == nil {
			keep[f.place()] = true
		} else {
			wanted[f.place()] = append(wanted[f.place()], types...)
		}
	}
	left := maxFilled
	for _, f := range e.faults {
		name := f.place()
		switch v := f.value.(type) {
		case string:
			if name == "" || keep[name] || !holds(v, wanted[name]) {
				continue
			}
			if at := root.at(f.path); !at.unquote {
				at.unquote = true
				unquoted = append(unquoted, shortened(name))
			}
		case defaults:
			if left < 0 {
				continue
			}
			left -= len(wire.Marshal(v))
			if at := root.at(f.path); at.fill == nil && left >= 0 { // of several branches, the first
				at.fill = v
				for _, key := range slices.Sorted(maps.Keys(v)) {
					filled = append(filled, shortened(strings.TrimPrefix(name+"."+key, ".")))
				}
			}
		}
	}
	return root, unquoted, filled
}

func shortened(name string) string { return strings.ToValidUTF8(name[:min(len(name), 100)], "") }

// place names where the fault is.
func (f fault) place() string { return strings.TrimPrefix(appendPath("", f.path), ".") }

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

// holds reports whether the text is the JSON of an object or an array, which is one of the types.
func holds(text string, types []string) bool {
	trimmed := []byte(strings.TrimSpace(text))
	return (wire.IsObject(trimmed) && slices.Contains(types, "object") || wire.IsArray(trimmed) && slices.Contains(types, "array")) && wire.Valid(trimmed)
}

// at returns the edit of a place, which it adds if there is no edit.
func (e *edit) at(path []place) *edit {
	for _, p := range path {
		next := e.parts[p]
		if next == nil {
			next = &edit{}
			if e.parts == nil {
				e.parts = make(map[place]*edit)
			}
			e.parts[p] = next
		}
		e = next
	}
	return e
}

// apply returns the edited JSON value. All bytes that the edit does not name remain.
func (e *edit) apply(value []byte) []byte {
	if text, ok := wire.String(value); ok && e.unquote {
		return []byte(strings.TrimSpace(text))
	}
	if len(e.parts) == 0 && e.fill == nil {
		return value
	}
	var out []byte
	add := func(p place, key []byte, v []byte) {
		if part := e.parts[p]; part != nil {
			v = part.apply(v)
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(append(out, key...), v...)
	}
	value = bytes.TrimSpace(value)
	switch {
	case wire.IsObject(value):
		out = append(make([]byte, 0, len(value)), '{')
		for name, v := range wire.All(value) { // it was decoded before
			add(place{name: name}, append(wire.AppendString(nil, name), ':'), v)
		}
		for _, name := range slices.Sorted(maps.Keys(e.fill)) {
			add(place{name: name}, append(wire.AppendString(nil, name), ':'), wire.Marshal(e.fill[name]))
		}
		return append(out, '}')
	case wire.IsArray(value):
		out = append(make([]byte, 0, len(value)), '[')
		i := 0
		for v := range wire.Values(value) {
			add(place{index: i, item: true}, nil, v)
			i++
		}
		return append(out, ']')
	}
	return value
}

// wantsString reports whether a schema allows strings by name.
func wantsString(s *jsonschema.Schema) bool {
	isString := func(v any) bool { return typeOf(v) == "string" }
	return s.Types != nil && *s.Types&types["string"] != 0 ||
		s.Enum != nil && slices.ContainsFunc(s.Enum.Values, isString) || s.Const != nil && isString(*s.Const)
}

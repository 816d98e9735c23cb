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
)

// Repair returns the JSON value with strings that hold the JSON of an array or an object as these, where the schema wants one and
// nowhere a string; and a sentence that names the changes, "" if nothing was done. The value returned need not fit: Validate
// says whether it does.
func (s *Schema) Repair(ctx context.Context, value json.RawMessage) (repaired json.RawMessage, how string) {
	var names []string
	for range maxRounds {
		e := evaluation{meter: meter{ctx: ctx}, most: maxRepairs, repairs: true}
		if err := e.run(s, value); err != nil || len(e.faults) >= maxRepairs {
			break
		}
		quoted := e.quoted()
		if len(quoted) == 0 {
			break
		}
		value = unquoted(value, "", quoted)
		for _, place := range slices.Sorted(maps.Keys(quoted)) {
			name := strings.ReplaceAll(place[1:], separator, ".")
			names = append(names, strings.ToValidUTF8(name[:min(len(name), 100)], ""))
		}
	}
	if len(names) == 0 {
		return value, ""
	}
	return value, "strings of JSON became values: " + prose.List(names, maxNamed)
}

// quoted returns the places of the strings to be repaired.
func (e *evaluation) quoted() map[string]bool {
	keep := make(map[string]bool) // places of strings that stay
	for _, path := range e.strings {
		keep[placeOf(path)] = true
	}
	wanted := make(map[string][]string) // types
	for _, f := range e.faults {
		if types := f.wants(); slices.Contains(types, "string") || types == nil {
			keep[placeOf(f.path)] = true
		} else {
			wanted[placeOf(f.path)] = append(wanted[placeOf(f.path)], types...)
		}
	}
	all := make(map[string]bool)
	for _, f := range e.faults {
		place := placeOf(f.path)
		if text, ok := f.value.(string); ok && place != "" && !keep[place] && holds(text, wanted[place]) {
			all[place] = true
		}
	}
	return all
}

// separator is before each name of a place, which few names have.
const separator = "\x00"

// placeOf returns the place of a value as one text, "" for the whole.
func placeOf(path []place) (text string) {
	for _, p := range path {
		if text += separator + p.name; p.item {
			text += strconv.Itoa(p.index)
		}
	}
	return text
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

// holds reports whether the text is the JSON of an object or an array, which is one of the types.
func holds(text string, types []string) bool {
	trimmed := []byte(strings.TrimSpace(text))
	return (wire.IsObject(trimmed) && slices.Contains(types, "object") || wire.IsArray(trimmed) && slices.Contains(types, "array")) && wire.Valid(trimmed)
}

// unquoted returns a JSON value, which is at a place, with the values of quoted strings instead of these. All other bytes
// remain.
func unquoted(value []byte, at string, quoted map[string]bool) []byte {
	if text, ok := wire.String(value); ok && quoted[at] {
		return []byte(strings.TrimSpace(text))
	}
	if !wire.IsObject(value) && !wire.IsArray(value) {
		return value
	}
	value = bytes.TrimSpace(value)
	out := append(make([]byte, 0, len(value)), value[0])
	add := func(name string, key, v []byte) {
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(append(out, key...), unquoted(v, at+separator+name, quoted)...)
	}
	if wire.IsArray(value) {
		i := 0
		_ = wire.Elements(value, func(v []byte) bool {
			add(strconv.Itoa(i), nil, v)
			i++
			return true
		})
		return append(out, ']')
	}
	_ = wire.Members(value, func(name string, v []byte) bool {
		add(name, append(wire.AppendString(nil, name), ':'), v)
		return true
	})
	return append(out, '}')
}

// wantsString reports whether a schema allows strings by name.
func wantsString(s *jsonschema.Schema) bool {
	isString := func(v any) bool { return typeOf(v) == "string" }
	return s.Types != nil && *s.Types&types["string"] != 0 ||
		s.Enum != nil && slices.ContainsFunc(s.Enum.Values, isString) || s.Const != nil && isString(*s.Const)
}

package scope

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"github.com/mcp-metarouter/metarouter/internal/schema"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/registry"
)

// withFixed returns the tool with arguments that a profile fixes, an object: clients neither see nor send them. The schema for
// clients lacks the properties and rules that name them, since calls are checked against ServerSchema. All other bytes stay.
func withFixed(t *registry.NormalizedTool, values json.RawMessage) *registry.NormalizedTool {
	e := eraser{names: make(map[string]bool)}
	keys := schema.NewKeys(t.Keys)
	_ = wire.Members(values, func(name string, _ []byte) bool { e.names[keys.Name(name)] = true; return true })
	clone := *t
	if clone.Fixed = values; t.ServerSchema == nil {
		clone.ServerSchema = t.InputSchema
	}
	clone.InputSchema = e.erase(t.InputSchema)
	clone.Definition = e.definition(t.Definition)
	if t.Flat != nil {
		clone.Flat = e.definition(t.Flat)
	}
	return &clone
}

// An eraser removes properties from a schema.
type eraser struct{ names map[string]bool }

// definition returns a tool's definition without the properties in its inputSchema.
func (e eraser) definition(tool json.RawMessage) json.RawMessage {
	return edit(tool, "inputSchema", e.erase)
}

// maxReferences bounds the definitions of one schema to which its top level refers.
const maxReferences = 256

// erase returns an object schema without the properties, also in the definitions that its top level
// refers to.
func (e eraser) erase(schema []byte) []byte {
	var references []string
	schema = e.level(schema, &references)
	for i := 0; i < len(references) && i < maxReferences; i++ {
		pointer, local := strings.CutPrefix(references[i], "#/")
		if local {
			schema = editAt(schema, strings.Split(pointer, "/"), func(definition []byte) []byte { return e.level(definition, &references) })
		}
	}
	return schema
}

// level removes the properties from a schema and its parts for the same value. It appends the
// references that it finds.
func (e eraser) level(schema []byte, references *[]string) []byte {
	if !wire.IsObject(schema) {
		return schema // true and false are schemas, too
	}
	if ref, ok := wire.String(wire.Member(schema, "$ref")); ok && !slices.Contains(*references, ref) {
		*references = append(*references, ref)
	}
	schema = edit(schema, "properties", e.members)
	schema = edit(schema, "default", e.members)
	schema = edit(schema, "examples", func(list []byte) []byte { return each(list, e.members) })
	schema = edit(schema, "required", e.strings)
	if string(wire.Member(schema, "required")) == "[]" {
		schema = wire.DeleteMember(schema, "required") // early drafts do not allow it
	}
	schema = wire.DeleteMember(schema, "minProperties") // it counts those that are fixed
	for _, rules := range [][]string{{"not"}, {"if", "then", "else"}, {"dependentRequired"}, {"dependentSchemas"}, {"dependencies"}} {
		if slices.ContainsFunc(rules, func(key string) bool { return e.isIn(wire.Member(schema, key)) }) {
			for _, key := range rules {
				schema = wire.DeleteMember(schema, key)
			}
		}
	}
	for _, key := range []string{"allOf", "anyOf", "oneOf"} {
		schema = edit(schema, key, func(list []byte) []byte {
			return each(list, func(part []byte) []byte { return e.level(part, references) })
		})
	}
	return schema
}

// isIn reports whether a rule has one of the names anywhere, as a key or a value.
func (e eraser) isIn(rule []byte) bool {
	var v any
	if json.Unmarshal(rule, &v) != nil {
		return false
	}
	text := wire.Marshal(v) // every name is written in the same way
	for name := range e.names {
		if bytes.Contains(text, wire.Marshal(name)) {
			return true
		}
	}
	return false
}

// members removes the names from an object.
func (e eraser) members(object []byte) []byte {
	if !wire.IsObject(object) {
		return object
	}
	for name := range e.names {
		if wire.Member(object, name) != nil {
			object = wire.DeleteMember(object, name)
		}
	}
	return object
}

// strings removes the names from a list of strings.
func (e eraser) strings(list []byte) []byte {
	var names []string
	if json.Unmarshal(list, &names) != nil || !slices.ContainsFunc(names, func(name string) bool { return e.names[name] }) {
		return list
	}
	return wire.Marshal(slices.DeleteFunc(names, func(name string) bool { return e.names[name] }))
}

// edit returns the object with f applied to a member, if it has that.
func edit(object []byte, key string, f func([]byte) []byte) []byte {
	before := wire.Member(object, key)
	if before == nil {
		return object
	}
	if after := f(before); string(after) != string(before) {
		return wire.SetMember(object, key, after)
	}
	return object
}

var unescape = strings.NewReplacer("~1", "/", "~0", "~")

// editAt returns the object with f applied to the value at the steps of a JSON pointer.
func editAt(object []byte, steps []string, f func([]byte) []byte) []byte {
	if len(steps) == 0 {
		return f(object)
	}
	if !wire.IsObject(object) {
		return object
	}
	return edit(object, unescape.Replace(steps[0]), func(member []byte) []byte { return editAt(member, steps[1:], f) })
}

// each returns the list with f applied to its items.
func each(list []byte, f func([]byte) []byte) []byte {
	var items []json.RawMessage
	if json.Unmarshal(list, &items) != nil {
		return list
	}
	changed := false
	for i, item := range items {
		items[i] = f(item)
		changed = changed || string(items[i]) != string(item)
	}
	if !changed {
		return list
	}
	return wire.Marshal(items)
}

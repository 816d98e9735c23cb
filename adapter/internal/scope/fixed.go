package scope

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/tailscale/hujson"

	"github.com/mcp-metarouter/metarouter/internal/jsonc"
	"github.com/mcp-metarouter/metarouter/internal/schema"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/registry"
)

// withFixed returns the tool with arguments that a profile fixes, an object: clients neither see nor send them. The schema for
// clients lacks the properties and rules that name them, since calls are checked against ServerSchema. All other bytes stay.
func withFixed(t *registry.NormalizedTool, values json.RawMessage) *registry.NormalizedTool {
	e := eraser{names: make(map[string]bool)}
	keys := schema.NewKeys(t.Keys)
	for _, name := range wire.Keys(values) {
		e.names[keys.Name(name)] = true
	}
	clone := *t
	if clone.Fixed = values; t.ServerSchema == nil {
		clone.ServerSchema = t.InputSchema
	}
	clone.InputSchema = e.erase(t.InputSchema, "")
	clone.Definition = e.erase(t.Definition, "/inputSchema")
	if t.Flat != nil {
		clone.Flat = e.erase(t.Flat, "/inputSchema")
	}
	return &clone
}

// An eraser removes properties from a schema.
type eraser struct {
	names      map[string]bool
	references []string // in the schema, so far
}

// maxReferences bounds the definitions of one schema to which its top level refers.
const maxReferences = 256

// erase returns the text, without the properties in the object schema to which a JSON pointer leads, also in
// the definitions that its top level refers to.
func (e eraser) erase(text json.RawMessage, at string) json.RawMessage {
	whole, err := hujson.Parse(text)
	schema := whole.Find(at)
	if err != nil || schema == nil {
		return text
	}
	e.level(schema)
	for i := 0; i < len(e.references) && i < maxReferences; i++ {
		pointer, local := strings.CutPrefix(e.references[i], "#")
		if definition := schema.Find(pointer); local && pointer != "" && definition != nil {
			e.level(definition)
		}
	}
	return whole.Pack()
}

// level removes the properties from a schema and its parts for the same value, and the rules that name them. It notes the
// references that it finds.
func (e *eraser) level(schema *hujson.Value) {
	o, ok := schema.Value.(*hujson.Object)
	if !ok {
		return // true and false are schemas, too
	}
	conditional := false
	for i := range o.Members {
		v := &o.Members[i].Value
		list, ok := v.Value.(*hujson.Array)
		if !ok {
			list = new(hujson.Array)
		}
		switch jsonc.Key(o.Members[i]) {
		case "$ref":
			if ref, ok := jsonc.Text(*v); ok && !slices.Contains(e.references, ref) {
				e.references = append(e.references, ref)
			}
		case "properties", "default":
			e.members(*v)
		case "examples":
			for _, example := range list.Elements {
				e.members(example)
			}
		case "required":
			list.Elements = slices.DeleteFunc(list.Elements, func(v hujson.Value) bool { name, _ := jsonc.Text(v); return e.names[name] })
			if n := len(list.Elements); n > 0 {
				list.Elements[n-1].AfterExtra = nil // else hujson packs a last comma
			}
		case "allOf", "anyOf", "oneOf":
			for j := range list.Elements {
				e.level(&list.Elements[j])
			}
		case "if", "then", "else":
			conditional = conditional || e.isIn(*v)
		}
	}
	remove(o, func(m hujson.ObjectMember) bool {
		switch jsonc.Key(m) {
		case "minProperties": // it counts those that are fixed
			return true
		case "required": // early drafts do not allow an empty one
			list, ok := m.Value.Value.(*hujson.Array)
			return ok && len(list.Elements) == 0
		case "not", "dependentRequired", "dependentSchemas", "dependencies":
			return e.isIn(m.Value)
		case "if", "then", "else":
			return conditional
		}
		return false
	})
}

// isIn reports whether a rule has one of the names anywhere, as a key or a value.
func (e *eraser) isIn(rule hujson.Value) bool {
	text := jsonc.AppendCanonical(nil, rule.Value) // every name is written in the same way
	for name := range e.names {
		if bytes.Contains(text, strconv.AppendQuote(nil, name)) {
			return true
		}
	}
	return false
}

// members removes the names from a value that is an object.
func (e *eraser) members(v hujson.Value) {
	if o, ok := v.Value.(*hujson.Object); ok {
		remove(o, func(m hujson.ObjectMember) bool { return e.names[jsonc.Key(m)] })
	}
}

// remove removes members of an object.
func remove(o *hujson.Object, gone func(hujson.ObjectMember) bool) {
	before := len(o.Members)
	o.Members = slices.DeleteFunc(o.Members, gone)
	if n := len(o.Members); 0 < n && n < before {
		o.Members[0].Name.BeforeExtra, o.Members[n-1].Value.AfterExtra = nil, nil // the space; else hujson packs a last comma
	}
}

package tools

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/registry"
)

// signature returns the tool as one line, such as
//
//	search(query: string, limit?: int=10)
//
// with required parameters first and the others marked by a question mark, each
// in the order of the schema.
func signature(t *registry.NormalizedTool) string {
	var required []string
	_ = json.Unmarshal(wire.Member(t.InputSchema, "required"), &required)
	var must, may []string
	_ = wire.Members(wire.Member(t.InputSchema, "properties"), func(name string, schema []byte) bool {
		if slices.Contains(required, name) {
			must = append(must, name+": "+typeName(schema))
			return true
		}
		parameter := name + "?: " + typeName(schema)
		if value := wire.Member(schema, "default"); value != nil && len(value) <= 40 {
			parameter += "=" + string(value)
		}
		may = append(may, parameter)
		return true
	})
	return t.Name + "(" + strings.Join(append(must, may...), ", ") + ")"
}

var shortTypes = map[string]string{"integer": "int", "boolean": "bool"}

// typeName returns a short name for what a schema allows.
func typeName(schema []byte) string {
	if values := wire.Member(schema, "enum"); values != nil && len(values) <= 80 {
		var list []json.RawMessage
		if json.Unmarshal(values, &list) == nil && len(list) > 0 {
			parts := make([]string, len(list))
			for i, v := range list {
				parts[i] = string(v)
			}
			return strings.Join(parts, "|")
		}
	}
	raw := wire.Member(schema, "type")
	if name, ok := wire.String(raw); ok {
		if name == "array" {
			return typeName(wire.Member(schema, "items")) + "[]"
		}
		if short, ok := shortTypes[name]; ok {
			return short
		}
		return name
	}
	var names []string
	if json.Unmarshal(raw, &names) == nil && len(names) > 0 {
		for i, name := range names {
			if short, ok := shortTypes[name]; ok {
				names[i] = short
			}
		}
		return strings.Join(names, "|")
	}
	return "any"
}

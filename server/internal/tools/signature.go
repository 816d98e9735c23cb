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
//	search(query: string, limit?: int=10) → {hits: object[], next?: string}
//
// with required parameters first and the others marked by a question mark, each
// in the order of the schema, and with the output if the tool declares one.
func signature(t *registry.NormalizedTool) string {
	line := t.Name + "(" + strings.Join(members(t.InputSchema), ", ") + ")"
	if output := outputType(t); output != "" {
		line += " → " + output
	}
	return line
}

// members returns the properties of an object's schema, each as "name: type".
func members(schema []byte) []string {
	var required []string
	_ = json.Unmarshal(wire.Member(schema, "required"), &required)
	var must, may []string
	_ = wire.Members(wire.Member(schema, "properties"), func(name string, property []byte) bool {
		if slices.Contains(required, name) {
			must = append(must, name+": "+typeName(property))
			return true
		}
		member := name + "?: " + typeName(property)
		if value := wire.Member(property, "default"); value != nil && len(value) <= 40 {
			member += "=" + string(value)
		}
		may = append(may, member)
		return true
	})
	return append(must, may...)
}

const (
	maxOutputMembers = 8
	maxOutputBytes   = 160 // of all members
)

// outputType returns the type of the structured content that the tool declares, in one
// line; "" if it declares none.
func outputType(t *registry.NormalizedTool) string {
	schema := wire.Member(t.Definition, "outputSchema")
	all := members(schema)
	if len(all) == 0 {
		if schema == nil || wire.Member(schema, "type") == nil {
			return ""
		}
		return typeName(schema)
	}
	size := 0
	for i, member := range all {
		if size += len(member) + 2; i == maxOutputMembers || size > maxOutputBytes {
			return "{" + strings.Join(append(all[:i:i], "…"), ", ") + "}"
		}
	}
	return "{" + strings.Join(all, ", ") + "}"
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

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

// The limits of a signature. No known server comes near to them.
const (
	maxMembers     = 300
	maxMembersSize = 16 << 10 // bytes of all
	maxWord        = 100      // bytes of a name or a type
)

// members returns the properties of an object's schema, each as "name: type". Above the limits,
// the last is "…".
func members(schema []byte) []string {
	var names []string
	_ = json.Unmarshal(wire.Member(schema, "required"), &names)
	required := make(map[string]bool, len(names))
	for _, name := range names {
		required[name] = true
	}
	var must, may, rest []string
	size := 0
	_ = wire.Members(wire.Member(schema, "properties"), func(name string, property []byte) bool {
		if size > maxMembersSize || len(must)+len(may) >= maxMembers {
			rest = []string{"…"}
			return false
		}
		mark := "?: "
		if required[name] {
			mark = ": "
		}
		member := short(name) + mark + short(typeName(property))
		if value := wire.Member(property, "default"); !required[name] && value != nil && len(value) <= 40 {
			member += "=" + string(value)
		}
		if size += len(member); required[name] {
			must = append(must, member)
		} else {
			may = append(may, member)
		}
		return true
	})
	return slices.Concat(must, may, rest)
}

// short returns the word, cut if it is very long.
func short(word string) string {
	if len(word) <= maxWord {
		return word
	}
	return strings.ToValidUTF8(word[:maxWord], "") + "…"
}

const (
	maxOutputMembers = 8
	maxOutputBytes   = 160 // of all members
)

// outputType returns the type of the structured content that the tool declares, in one
// line; "" if it declares no output.
func outputType(t *registry.NormalizedTool) string {
	schema := wire.Member(t.Definition, "outputSchema")
	all := members(schema)
	if len(all) == 0 {
		if schema == nil || wire.Member(schema, "type") == nil {
			return ""
		}
		return short(typeName(schema))
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

// typeName returns a short name for the values that a schema allows.
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

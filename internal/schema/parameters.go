package schema

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/mcp-metarouter/metarouter/internal/wire"
)

// Parameters are the members that the schema of an object names at its top level.
type Parameters struct {
	Names    []string // in the order of the schema, at most 1,000
	Required []string
	Open     bool // others are named elsewhere in the schema, or welcome
}

// ParametersOf reads the parameters of a schema. A schema that says nothing of further members
// is not Open, though they are valid: a tool does nothing with them.
func ParametersOf(schema json.RawMessage) (p Parameters) {
	p.Open = slices.ContainsFunc([]string{"allOf", "anyOf", "oneOf", "$ref", "patternProperties"}, func(key string) bool { return wire.Member(schema, key) != nil })
	if others := wire.Member(schema, "additionalProperties"); others != nil && string(others) != "false" {
		p.Open = true
	}
	properties := wire.Member(schema, "properties")
	for name := range wire.All(properties) {
		if p.Names = append(p.Names, name); len(p.Names) == 1000 {
			break
		}
	}
	p.Required = Required(properties, wire.Member(schema, "required"))
	return p
}

// Required returns the members of an object that a caller must send, given two keywords of its schema: those that are
// required and have no default, which [Schema.Repair] fills in.
func Required(properties, required json.RawMessage) (names []string) {
	if json.Unmarshal(required, &names) != nil {
		return nil // only a list of names requires some
	}
	optional := make(map[string]bool)
	for name, property := range wire.All(properties) {
		optional[name] = wire.Member(property, "default") != nil
	}
	return slices.DeleteFunc(names, func(name string) bool { return optional[name] })
}

// Target returns the part of a schema to which a reference such as "#/$defs/path" leads; nil if it leads elsewhere, or once
// left, the bytes that may still be read, is used up.
func Target(schema json.RawMessage, ref string, left *int) json.RawMessage {
	steps := strings.Split(ref, "/")
	if steps[0] != "#" {
		return nil
	}
	for _, step := range steps[1:] {
		if *left -= len(schema); schema == nil || *left < 0 {
			return nil
		}
		schema = wire.Member(schema, strings.NewReplacer("~1", "/", "~0", "~").Replace(step))
	}
	return schema
}

package profile

import (
	"bytes"
	"cmp"
	"encoding/json"
	"maps"
	"slices"

	"github.com/mcp-metarouter/metarouter/internal/glob"
	schemas "github.com/mcp-metarouter/metarouter/internal/schema"
	"github.com/mcp-metarouter/metarouter/internal/wire"
)

// fixed are the fixed arguments of the tools that a pattern matches.
type fixed struct {
	pattern glob.Pattern
	values  map[string]json.RawMessage
}

// compileFixed returns the most specific pattern first: names before patterns, then the
// longest, then by the alphabet.
func compileFixed(arguments map[string]map[string]json.RawMessage) ([]fixed, error) {
	var all []fixed
	for text, values := range arguments {
		p, err := glob.Parse(text)
		if err != nil {
			return nil, err
		}
		compact := make(map[string]json.RawMessage, len(values))
		for name, value := range values {
			var b bytes.Buffer
			if err := json.Compact(&b, value); err != nil {
				return nil, err
			}
			compact[name] = b.Bytes()
		}
		all = append(all, fixed{p, compact})
	}
	slices.SortFunc(all, func(a, b fixed) int {
		if a.pattern.IsName() != b.pattern.IsName() {
			if a.pattern.IsName() {
				return -1
			}
			return 1
		}
		return cmp.Or(cmp.Compare(len(b.pattern.String()), len(a.pattern.String())), cmp.Compare(a.pattern.String(), b.pattern.String()))
	})
	return all, nil
}

// fixedFor returns the arguments that the profile fixes for a tool, whether the tool's schema
// declares them or not. Of several patterns, the most specific one counts.
func (c *compiled) fixedFor(i item) map[string]json.RawMessage {
	if len(c.fixed) == 0 {
		return nil
	}
	values := make(map[string]json.RawMessage)
	for _, f := range slices.Backward(c.fixed) {
		if i.Matches(f.pattern) {
			maps.Copy(values, f.values)
		}
	}
	return values
}

// maxBranches bounds how many parts of a schema are searched for properties, and maxRead the bytes that references lead through.
const (
	maxBranches = 256
	maxRead     = 64 << 20
)

// declares returns a function that reports whether an object schema declares a property, also by
// way of allOf, anyOf, oneOf, if, then, else, dependentSchemas, dependencies and references to its own definitions. Of a schema
// with too many of these, each property counts as declared: a server must not hide one.
func declares(schema json.RawMessage) func(name string) bool {
	names := make(map[string]bool)
	seen := make(map[string]bool) // references
	parts, left := []json.RawMessage{schema}, maxRead
	for n := 0; n < len(parts); n++ {
		if n == maxBranches || left < 0 {
			return func(string) bool { return true }
		}
		for key, value := range wire.All(parts[n]) {
			switch key {
			case "properties":
				for name := range wire.All(value) {
					names[name] = true
				}
			case "allOf", "anyOf", "oneOf":
				var branches []json.RawMessage
				_ = json.Unmarshal(value, &branches) // another value declares nothing
				parts = append(parts, branches...)
			case "dependentSchemas", "dependencies":
				for _, branch := range wire.All(value) {
					parts = append(parts, branch)
				}
			case "if", "then", "else":
				parts = append(parts, value)
			case "$ref":
				var pointer string
				if json.Unmarshal(value, &pointer) == nil && !seen[pointer] {
					seen[pointer] = true
					parts = append(parts, schemas.Target(schema, pointer, &left))
				}
			}
		}
	}
	return func(name string) bool { return names[name] }
}

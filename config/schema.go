package config

import (
	"cmp"
	_ "embed"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/mcp-metarouter/metarouter/internal/lazy"
)

//go:embed schema.json
var schema string

// Schema is the JSON Schema (draft 2020-12) of the file, for editors: what each key
// means, and which values it takes. It is looser than Load where dialects are.
func Schema() []byte { return []byte(schema) }

// A node is what the schema says of the values under a key, and of the elements of an array there.
type node struct {
	Ref        string           `json:"$ref"`
	Properties map[string]*node `json:"properties"`
	AnyOf      []*node          `json:"anyOf"`
	Items      *node            `json:"items"`
	Additional json.RawMessage  `json:"additionalProperties"` // a node, or false
	Defs       map[string]*node `json:"$defs"`

	Enum       []any           `json:"enum"`
	Minimum    *int            `json:"minimum"`
	Maximum    *int            `json:"maximum"`
	Above      *int            `json:"exclusiveMinimum"`
	Below      *int            `json:"exclusiveMaximum"`
	MinLength  int             `json:"minLength"`
	MaxLength  int             `json:"maxLength"`
	MaxItems   int             `json:"maxItems"`
	MaxMembers int             `json:"maxProperties"`
	Pattern    *string         `json:"pattern"`
	Default    json.RawMessage `json:"default"`

	// Says is what is said of a value that does not fit, if the keywords do not say it well enough:
	// a sentence that begins with the key. Editors show it too.
	Says string `json:"errorMessage"`

	array   string            // Says of an array, whose elements may have another one
	keys    []string          // of the object
	matches func(string) bool // the pattern
}

// add joins what another node says of the same value.
func (n *node) add(m *node) {
	if says := m.Says; m.Items != nil {
		n.array = cmp.Or(n.array, says)
	} else {
		n.Says = cmp.Or(n.Says, says)
	}
	if n.Enum == nil {
		n.Enum = m.Enum
	}
	if n.Default == nil {
		n.Default = m.Default
	}
	for _, of := range []struct {
		to   **int
		from *int
	}{{&n.Minimum, m.Minimum}, {&n.Maximum, m.Maximum}, {&n.Above, m.Above}, {&n.Below, m.Below}} {
		*of.to = cmp.Or(*of.to, of.from)
	}
	n.MinLength, n.MaxLength, n.Pattern = cmp.Or(n.MinLength, m.MinLength), cmp.Or(n.MaxLength, m.MaxLength), cmp.Or(n.Pattern, m.Pattern)
	n.MaxItems, n.MaxMembers = cmp.Or(n.MaxItems, m.MaxItems), cmp.Or(n.MaxMembers, m.MaxMembers)
	n.keys = slices.AppendSeq(n.keys, maps.Keys(m.Properties))
	if n.Pattern != nil {
		of := lazy.Regexp(*n.Pattern)
		n.matches = func(s string) bool { return of().MatchString(s) }
	}
}

// levels returns the nodes of the schema by their levels.
var levels = sync.OnceValue(func() map[string]*node {
	var root node
	if err := json.Unmarshal([]byte(schema), &root); err != nil {
		panic(err) // a test reads it
	}
	all := make(map[string]*node)
	var walk func(level string, n *node)
	walk = func(level string, n *node) {
		if all[level] == nil {
			all[level] = new(node)
		}
		all[level].add(n)
		if n.Ref != "" {
			walk(level, root.Defs[strings.TrimPrefix(n.Ref, "#/$defs/")])
		}
		for _, either := range n.AnyOf {
			walk(level, either)
		}
		for key, value := range n.Properties {
			walk(below(level, key), value)
		}
		if n.Items != nil {
			walk(level, n.Items)
		}
		var others node
		if json.Unmarshal(n.Additional, &others) == nil {
			walk(below(level, "*"), &others)
		}
	}
	walk("", &root)
	for _, n := range all {
		slices.Sort(n.keys)
	}
	return all
})

// nodeAt returns the node of a level.
func nodeAt(level string) *node {
	if n := levels()[level]; n != nil {
		return n
	}
	return new(node)
}

// knownAt reports whether a key may stand at a level.
func knownAt(level, key string) bool { return slices.Contains(nodeAt(level).keys, key) }

// Package keys knows the keys of a configuration file from its schema: which stand where, which
// values they take, and which key was probably meant by another one. It knows keys and files of other clients, too.
package keys

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/mcp-metarouter/metarouter/internal/lazy"
)

// A Node is the part of the schema for the values of a key, and for the elements of an array there.
type Node struct {
	Ref        string           `json:"$ref"`
	Properties map[string]*Node `json:"properties"`
	AnyOf      []*Node          `json:"anyOf"`
	Items      *Node            `json:"items"`
	Additional json.RawMessage  `json:"additionalProperties"` // a Node, or false
	Defs       map[string]*Node `json:"$defs"`

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

	// Reads says how a string is read: "variables" expands these, and "secrets" may refer to secrets too.
	Reads  string `json:"reads"`
	Format string `json:"format"`        // the check of a string, which package config has
	Names  *Node  `json:"propertyNames"` // of an object with free keys

	// Says is the error for a value that does not fit, if the keywords give no good one. It completes
	// a sentence that begins with the key. Editors show it too.
	Says string `json:"errorMessage"`

	Array string   `json:"-"` // Says of an array; its elements may have another error
	Keys  []string `json:"-"` // of the object, sorted

	matches func(string) bool // the pattern
}

// add joins another node for the same value.
func (n *Node) add(m *Node) {
	if says := m.Says; m.Items != nil {
		n.Array = cmp.Or(n.Array, says)
	} else {
		n.Says = cmp.Or(n.Says, says)
	}
	if n.Enum == nil {
		n.Enum = m.Enum
	}
	if n.Default == nil {
		n.Default = m.Default
	}
	n.Minimum, n.Maximum, n.Above, n.Below = cmp.Or(n.Minimum, m.Minimum), cmp.Or(n.Maximum, m.Maximum), cmp.Or(n.Above, m.Above), cmp.Or(n.Below, m.Below)
	n.Reads, n.Format, n.Names = cmp.Or(n.Reads, m.Reads), cmp.Or(n.Format, m.Format), cmp.Or(n.Names, m.Names)
	n.MinLength, n.MaxLength, n.Pattern = cmp.Or(n.MinLength, m.MinLength), cmp.Or(n.MaxLength, m.MaxLength), cmp.Or(n.Pattern, m.Pattern)
	n.MaxItems, n.MaxMembers = cmp.Or(n.MaxItems, m.MaxItems), cmp.Or(n.MaxMembers, m.MaxMembers)
	n.Keys = slices.AppendSeq(n.Keys, maps.Keys(m.Properties))
	if n.Pattern != nil {
		of := lazy.Regexp(*n.Pattern)
		n.matches = func(s string) bool { return of().MatchString(s) }
	}
}

// A Table has the nodes of a schema by their levels.
type Table map[string]*Node

// Read reads a schema. It panics if the schema is no JSON.
func Read(schema []byte) Table {
	var root Node
	if err := json.Unmarshal(schema, &root); err != nil {
		panic(err)
	}
	all := make(Table)
	var walk func(level string, n *Node)
	walk = func(level string, n *Node) {
		if all[level] == nil {
			all[level] = new(Node)
		}
		all[level].add(n)
		if n.Ref != "" {
			walk(level, root.Defs[strings.TrimPrefix(n.Ref, "#/$defs/")])
		}
		for _, either := range n.AnyOf {
			walk(level, either)
		}
		for key, value := range n.Properties {
			walk(Below(level, key), value)
		}
		if n.Items != nil {
			walk(level, n.Items)
		}
		var others Node
		if json.Unmarshal(n.Additional, &others) == nil {
			walk(Below(level, "*"), &others)
		}
	}
	walk("", &root)
	for _, n := range all {
		slices.Sort(n.Keys)
	}
	return all
}

// At returns the node of a level, an empty one for a level that the schema does not have.
func (t Table) At(level string) *Node {
	if n := t[level]; n != nil {
		return n
	}
	return new(Node)
}

// Knows reports whether a key may stand at a level.
func (t Table) Knows(level, key string) bool { return slices.Contains(t.At(level).Keys, key) }

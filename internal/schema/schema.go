// Package schema compares JSON values with the JSON Schemas of strangers, at a bounded cost. It is
// a leaf.
//
// A library compiles the schemas and compares. It can't be stopped, so its work is bounded before:
// [Compile] rejects a schema that takes long to compile, or has references that unfold to very many
// subschemas, and [Schema.Validate] first counts the steps that the comparison may take (meter.go).
// An error for the cost matches [ErrCostly].
package schema

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/mcp-metarouter/metarouter/internal/wire"
)

// ErrCostly is the error for a schema that costs more than the limits of this package.
var ErrCostly = errors.New("the schema is too costly")

// The limits of a schema. They are at least 10 times the figures of known servers' schemas.
const (
	maxBytes    = 1 << 20
	maxValues   = 20_000    // JSON values of any kind
	maxSchemas  = 4_000     // objects and booleans, each of which may be a subschema
	maxDepth    = 128       // levels of nesting
	maxPointers = 1_200_000 // bytes of the JSON pointers to all values
	maxRefs     = 1_000_000 // references, times subschemas: the compiler's work for them
	maxNames    = 200       // strings in "$id" and "id"
	maxDigits   = 999       // of a number that is written out
	maxUnfolded = 10_000    // subschemas with which one value is compared
	maxReason   = 500       // bytes of an error
)

// location is a schema's URL while it is compiled.
const location = "mem:///schema"

// A Schema is a compiled JSON Schema. It is immutable.
type Schema struct {
	root    *jsonschema.Schema
	parts   map[string]*jsonschema.Schema               // all subschemas, by location
	same    map[*jsonschema.Schema][]*jsonschema.Schema // with which the same value is compared
	partial bool
	blind   bool // nothing depends on the content of a long string
	keys    Keys // for the texts of faults
}

// With returns the schema with keys that its faults name in place of its own.
func (s *Schema) With(k Keys) *Schema {
	other := *s
	other.keys = k
	return &other
}

// IsPartial reports whether the schema has a regular expression that Go's engine does not know. Every string fits it, and rules
// that could refuse a value for that are not applied.
func (s *Schema) IsPartial() bool { return s.partial }

// Compile compiles a schema of any draft, 2020-12 if it does not say which. The error matches
// [ErrCostly] if the schema is above the limits.
func Compile(raw json.RawMessage) (*Schema, error) {
	doc, err := readSchema(raw)
	if err != nil {
		return nil, err
	}
	patterns := patterns{known: make(map[string]jsonschema.Regexp)}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.UseLoader(noNetwork{})
	c.UseRegexpEngine(patterns.compile)
	if err := c.AddResource(location, doc); err != nil {
		return nil, err
	}
	root, err := c.Compile(location)
	switch {
	case patterns.costly:
		return nil, costly("its patterns are too large")
	case err != nil:
		reason := err.Error() // has a line for each fault
		return nil, errors.New(strings.ToValidUTF8(reason[:min(len(reason), maxReason)], ""))
	}
	u, err := unfold(root)
	if err != nil {
		return nil, err
	}
	compiled := &Schema{root: root, parts: make(map[string]*jsonschema.Schema, len(u.found)), same: u.same, partial: patterns.unknown, blind: true}
	for _, part := range u.found {
		if part.Format != nil && part.Format.Name == "regex" { // one that Go does not know may be right
			part.Format = nil
		}
		compiled.parts[part.Location] = part
		if patterns.unknown {
			loosen(part)
		}
		compiled.blind = compiled.blind && part.Pattern == nil && part.MaxLength == nil && part.Format == nil && (part.MinLength == nil || *part.MinLength <= abridged)
	}
	return compiled, nil
}

// loosen takes out of a schema the rules that may refuse a value because an expression matches. What they declare stays known.
func loosen(s *jsonschema.Schema) {
	for re, part := range s.PatternProperties {
		if _, unknown := re.(anything); unknown {
			s.PatternProperties[re] = &jsonschema.Schema{Then: part} // which means nothing without If
		}
	}
	if s.Not != nil || s.If != nil || s.OneOf != nil { // Then and Else without If refuse nothing, and AnyOf takes more than OneOf
		s.AllOf = append(slices.Clip(s.AllOf), &jsonschema.Schema{Then: s.Not, Else: s.If, AnyOf: s.OneOf})
	}
	s.Not, s.If, s.OneOf, s.MaxContains, s.UnevaluatedProperties, s.UnevaluatedItems = nil, nil, nil, nil, nil, nil
}

// Costly returns why the schema is too costly to validate, and nil if it is not.
func Costly(raw json.RawMessage) error {
	if _, err := Compile(raw); errors.Is(err, ErrCostly) {
		return err
	}
	return nil
}

func costly(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrCostly}, args...)...)
}

// noNetwork refuses every reference out of the schema.
type noNetwork struct{}

func (noNetwork) Load(string) (any, error) {
	return nil, errors.New("references out of the schema are not followed")
}

// readSchema returns the schema's document. It returns an error if its size is above the limits.
func readSchema(raw json.RawMessage) (doc any, err error) {
	if len(raw) > maxBytes {
		return nil, costly("it has %d bytes, more than %d", len(raw), maxBytes)
	}
	if doc, err = wire.Decode(raw); err != nil {
		return nil, err
	}
	var s size
	if err = s.add(doc, 0, 0); err == nil && s.refs*s.schemas > maxRefs {
		err = costly("it has %d references and %d subschemas", s.refs, s.schemas)
	}
	return doc, err
}

// size is how much of everything a schema's document has.
type size struct{ values, schemas, pointers, refs, names int }

// add adds a value with a JSON pointer of some bytes. It stops with an error above the limits.
func (s *size) add(v any, depth, pointer int) error {
	s.values++
	s.pointers += pointer
	switch {
	case depth > maxDepth:
		return costly("it is nested deeper than %d levels", maxDepth)
	case s.values > maxValues, s.schemas > maxSchemas:
		return costly("it has more than %d values or %d subschemas", maxValues, maxSchemas)
	case s.pointers > maxPointers, s.names > maxNames:
		return costly("its names are too long, or too many")
	}
	switch v := v.(type) {
	case map[string]any:
		s.schemas++
		for key, value := range v {
			s.addKeyword(key, value)
			if err := s.add(value, depth+1, pointer+1+len(key)); err != nil {
				return err
			}
		}
	case []any:
		for _, value := range v {
			if err := s.add(value, depth+1, pointer+4); err != nil {
				return err
			}
		}
	case bool:
		s.schemas++
	case json.Number:
		if width(v) > maxDigits {
			return costly("it has a number of more than %d digits", maxDigits)
		}
	}
	return nil
}

func (s *size) addKeyword(key string, value any) {
	text, _ := value.(string)
	switch key {
	case "$ref", "$dynamicRef", "$recursiveRef":
		s.refs++
		s.pointers += len(text)
	case "$id", "id":
		if text != "" {
			s.names++
			s.pointers += len(text)
		}
	}
}

// An unfolder computes how many subschemas one value is compared with.
type unfolder struct {
	costs map[*jsonschema.Schema]int // 0 while it is being computed
	found []*jsonschema.Schema       // the keys of costs
	same  map[*jsonschema.Schema][]*jsonschema.Schema
}

// unfold finds all subschemas. It returns an error if the schema compares one value with more than maxUnfolded of them, or with targets
// that depend on the way to a reference. The values inside of that value do not count here: a meter counts them.
func unfold(root *jsonschema.Schema) (unfolder, error) {
	u := unfolder{costs: make(map[*jsonschema.Schema]int), same: make(map[*jsonschema.Schema][]*jsonschema.Schema)}
	if _, err := u.cost(root); err != nil {
		return u, err
	}
	for i := 0; i < len(u.found); i++ {
		s := u.found[i]
		if s.RecursiveRef != nil && s.RecursiveRef.RecursiveAnchor || s.DynamicRef != nil && s.DynamicRef.Anchor != "" && s.DynamicRef.Ref.DynamicAnchor != "" {
			return u, costly("it has dynamic references")
		}
		for _, part := range innerValues(s) {
			if _, err := u.cost(part); err != nil {
				return u, err
			}
		}
	}
	return u, nil
}

// cost returns with how many subschemas the schema compares one value.
func (u *unfolder) cost(s *jsonschema.Schema) (int, error) {
	if cost, known := u.costs[s]; known {
		if cost == 0 {
			return 0, costly("it refers to itself without end")
		}
		return cost, nil
	}
	u.costs[s] = 0
	u.found = append(u.found, s)
	sum := 1
	same := sameValue(s)
	if len(same) > 0 {
		u.same[s] = same
	}
	for _, part := range same {
		cost, err := u.cost(part)
		if err != nil {
			return 0, err
		}
		if sum += cost; sum > maxUnfolded {
			return 0, costly("its references unfold to more than %d subschemas", maxUnfolded)
		}
	}
	u.costs[s] = sum
	return sum, nil
}

// sameValue returns the subschemas with which the same value is compared.
func sameValue(s *jsonschema.Schema) []*jsonschema.Schema {
	if s.Ref != nil && s.DraftVersion < 2019 {
		return []*jsonschema.Schema{s.Ref} // draft 7, 8.3: "All other properties in a "$ref" object MUST be ignored."
	}
	all := slices.Concat([]*jsonschema.Schema{s.Ref, s.RecursiveRef, s.Not, s.If, s.Then, s.Else}, s.AllOf, s.AnyOf, s.OneOf)
	if s.DynamicRef != nil {
		all = append(all, s.DynamicRef.Ref)
	}
	all = slices.AppendSeq(all, maps.Values(s.DependentSchemas))
	for _, part := range s.Dependencies {
		if part, ok := part.(*jsonschema.Schema); ok {
			all = append(all, part)
		}
	}
	return slices.DeleteFunc(all, isAbsent)
}

func isAbsent(s *jsonschema.Schema) bool { return s == nil }

// itemSchemas returns the schemas of the first items, and the schema of the others, which may be nil.
func itemSchemas(s *jsonschema.Schema) (first []*jsonschema.Schema, others *jsonschema.Schema) {
	if s.DraftVersion >= 2020 {
		return s.PrefixItems, s.Items2020
	}
	switch items := s.Items.(type) {
	case *jsonschema.Schema:
		return nil, items
	case []*jsonschema.Schema:
		first = items
	}
	others, _ = s.AdditionalItems.(*jsonschema.Schema)
	return first, others
}

// innerValues returns the subschemas with which a value's members, their names and its items are
// compared.
func innerValues(s *jsonschema.Schema) []*jsonschema.Schema {
	first, others := itemSchemas(s)
	additional, _ := s.AdditionalProperties.(*jsonschema.Schema)
	all := slices.Concat([]*jsonschema.Schema{s.PropertyNames, additional, s.UnevaluatedProperties, s.Contains, others, s.UnevaluatedItems}, first)
	all = slices.AppendSeq(all, maps.Values(s.Properties))
	all = slices.AppendSeq(all, maps.Values(s.PatternProperties))
	return slices.DeleteFunc(all, isAbsent)
}

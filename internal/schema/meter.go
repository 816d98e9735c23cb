package schema

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// stepsPerLook is how many steps are taken between two looks at the context.
const stepsPerLook = 1 << 10

// A meter counts the steps of a validation, and ends it by a panic when they are spent or its context ends. The library
// calls it in place of the format of each subschema, before it looks at the other parts of that.
type meter struct {
	ctx    context.Context // nil between validations: nothing counts
	steps  int             // that may still be taken
	look   int             // steps until the next look at ctx
	factor int             // of comparisons, for the longest number of the value
	slow   time.Duration   // that backtrackers have taken
	texts  map[string]bool // strings where the schema wants strings; nil if nothing is repaired
	within bool            // some subschema wants to know what is unevaluated; set once
}

// stopped is the value with which a meter panics.
type stopped struct{ err error }

// spend counts steps, and ends the validation if no step is left, or its context has ended.
func (m *meter) spend(steps int) {
	if m.ctx == nil {
		return
	}
	m.steps -= steps
	if m.look -= steps; m.look > 0 && m.steps >= 0 {
		return
	}
	if m.steps < 0 {
		panic(stopped{costly("it takes too many steps for this value")})
	}
	if m.ctx.Err() != nil {
		panic(stopped{context.Cause(m.ctx)})
	}
	m.look = stepsPerLook
}

// watch makes the library count the comparisons with a subschema. What comes before its format, the type and the
// values of an enum, counts with the subschema that leads to it.
func (m *meter) watch(s *jsonschema.Schema) {
	format, cost := s.Format, 1+len(s.Required)/4+len(s.Dependencies)+len(s.DependentSchemas)+len(s.DependentRequired)
	for _, part := range sameValue(s) {
		cost += early(part)
	}
	if format == nil || format.Name == "regex" { // an expression that Go does not know may be right
		format = &jsonschema.Format{Validate: func(any) error { return nil }}
	}
	wantsText := wantsString(s)
	s.Format = &jsonschema.Format{Name: format.Name, Validate: func(v any) error {
		m.spend(m.factor * cost)
		switch v := v.(type) {
		case map[string]any:
			m.spend(m.factor * m.members(s, v))
		case []any:
			m.spend(m.factor * m.items(s, v))
		case string:
			m.spend(len(v) / 64)
			if wantsText && m.texts != nil {
				m.texts[v] = true
			}
		}
		return format.Validate(v)
	}}
	for re := range s.PatternProperties {
		if _, unknown := re.(anything); unknown { // it may be for other names
			s.PatternProperties[re] = &jsonschema.Schema{Bool: new(true)}
		}
	}
}

// early returns the steps of the library before it calls a subschema's format.
func early(s *jsonschema.Schema) int {
	switch {
	case s == nil:
		return 0
	case s.Enum != nil:
		return 1 + weight(s.Enum.Values)
	case s.Const != nil:
		return 1 + weight(*s.Const)
	}
	return 1
}

// weight returns the steps to compare a value with an equal one.
func weight(v any) int {
	n := 1
	switch v := v.(type) {
	case map[string]any:
		for _, member := range v {
			n += weight(member)
		}
	case []any:
		for _, item := range v {
			n += weight(item)
		}
	case json.Number:
		n += width(v) / 8
	case string:
		n += len(v) / 64
	}
	return n
}

// members returns the steps to begin with the members of an object.
func (m *meter) members(s *jsonschema.Schema, object map[string]any) (n int) {
	each := early(s.PropertyNames) + early(s.UnevaluatedProperties)
	if m.within {
		each++
	}
	if additional, ok := s.AdditionalProperties.(*jsonschema.Schema); ok {
		each += early(additional)
	} else if s.AdditionalProperties != nil {
		each++
	}
	for _, part := range s.PatternProperties {
		each += early(part)
	}
	if n = each * len(object); len(s.Properties) > 0 {
		for name := range object {
			n += early(s.Properties[name])
		}
	}
	return n
}

// items returns the steps to begin with the items of an array, and to look for equal ones.
func (m *meter) items(s *jsonschema.Schema, items []any) (n int) {
	first, others := itemSchemas(s)
	each := early(others) + early(s.Contains) + early(s.UnevaluatedItems)
	if m.within {
		each++
	}
	n = each * len(items)
	for _, part := range first[:min(len(first), len(items))] {
		n += early(part)
	}
	if s.UniqueItems {
		n += min(len(items), 20) * weight(items) // of few items, the library compares each with each
	}
	return n
}

// width returns about how many digits the number has when it is written out, and more than
// maxDigits if they are very many. Numbers of more digits take very long to compute with: a power
// of ten is one number with any exponent.
func width(n json.Number) int {
	digits, exponent, found := strings.Cut(strings.ToLower(string(n)), "e")
	if !found {
		return len(digits)
	}
	e, err := strconv.Atoi(exponent)
	if err != nil || e < -maxDigits || e > maxDigits {
		return maxDigits + 1
	}
	return len(digits) + max(e, -e)
}

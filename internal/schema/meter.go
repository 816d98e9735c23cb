package schema

import (
	"context"
	"encoding/json"
	"math/big"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// maxSteps bounds the comparisons of one value and its parts with subschemas, and other work that takes as long; a long value gets
// one more for each byte, up to maxMore. A step takes about half a microsecond.
const (
	maxSteps = 500_000
	maxMore  = 1_500_000
)

// stepsPerLook is how many steps are counted between two looks at the context.
const stepsPerLook = 1 << 10

// A meter counts the steps that the comparison of a value takes at most. It stops with an error when none is left, or its context
// has ended.
type meter struct {
	ctx  context.Context
	same map[*jsonschema.Schema][]*jsonschema.Schema // as of Schema
	left int                                         // steps
	look int                                         // steps until the next look at ctx
	err  error
}

// spend counts steps, and reports whether to go on.
func (m *meter) spend(steps int) bool {
	m.left -= steps
	if m.look -= steps; m.err == nil && m.left < 0 {
		m.err = costly("it takes too many steps for this value")
	} else if m.err == nil && m.look < 0 {
		m.look, m.err = stepsPerLook, context.Cause(m.ctx)
	}
	return m.err == nil
}

// count counts the comparison of a value with a schema. level is how many comparisons it is a part of: the library looks through
// them, and names the place of each fault. rest says that the library notes which parts of the value are not evaluated yet.
func (m *meter) count(s *jsonschema.Schema, v any, level int, rest bool) {
	if s == nil || !m.spend(1+level/8) {
		return
	}
	rest = rest || s.UnevaluatedProperties != nil || s.UnevaluatedItems != nil
	if s.Enum != nil {
		m.equal(v, s.Enum.Values...)
	}
	if s.Const != nil {
		m.equal(v, *s.Const)
	}
	switch v := v.(type) {
	case string:
		m.spend(len(v) / 64)
		m.match(s.Pattern, v)
	case json.Number:
		m.number(v)
		for _, bound := range []*big.Rat{s.Minimum, s.Maximum, s.ExclusiveMinimum, s.ExclusiveMaximum, s.MultipleOf} {
			if bound != nil {
				m.spend(1 + (bound.Num().BitLen()+bound.Denom().BitLen())/32)
			}
		}
	case map[string]any:
		m.object(s, v, level+1, rest)
	case []any:
		m.array(s, v, level+1, rest)
	}
	for _, part := range m.same[s] {
		m.count(part, v, level+1, rest)
	}
}

func (m *meter) object(s *jsonschema.Schema, object map[string]any, level int, rest bool) {
	m.names(s.Required...)
	for name, names := range s.DependentRequired {
		m.names(name)
		m.names(names...)
	}
	for name, dependency := range s.Dependencies {
		names, _ := dependency.([]string)
		m.names(name)
		m.names(names...)
	}
	if rest {
		m.spend(len(object))
	}
	additional, _ := s.AdditionalProperties.(*jsonschema.Schema)
	if s.Properties == nil && s.PatternProperties == nil && s.AdditionalProperties == nil && s.PropertyNames == nil && s.UnevaluatedProperties == nil || !m.spend(len(object)/4) {
		return
	}
	for name, v := range object {
		m.spend(len(name) / 256)
		if property := s.Properties[name]; property != nil {
			m.count(property, v, level, false)
		} else {
			m.count(additional, v, level, false)
			m.count(s.UnevaluatedProperties, v, level, false)
		}
		for re, part := range s.PatternProperties {
			m.match(re, name)
			m.count(part, v, level, false)
		}
		m.count(s.PropertyNames, name, level, false)
		if m.err != nil {
			return
		}
	}
}

func (m *meter) array(s *jsonschema.Schema, items []any, level int, rest bool) {
	if rest {
		m.spend(len(items))
	}
	if s.UniqueItems {
		m.unique(items)
	}
	first, others := itemSchemas(s)
	if len(first) == 0 && others == nil && s.Contains == nil && s.UnevaluatedItems == nil {
		return
	}
	for i, item := range items {
		one := others
		if i < len(first) {
			one = first[i]
		}
		m.count(one, item, level, false)
		m.count(s.Contains, item, level, false)
		m.count(s.UnevaluatedItems, item, level, false)
		if m.err != nil {
			return
		}
	}
}

// unique counts the search for equal items.
func (m *meter) unique(items []any) {
	times := len(items) // the library compares each two of up to 20
	if times > 20 {     // and of more the hashes, and then those with the same hash, which arrays and objects can be made to have
		parts := 0
		for _, item := range items {
			switch item.(type) {
			case map[string]any, []any:
				parts++
			}
		}
		m.spend(parts * parts / 64)
		times = 2
	}
	for range times {
		m.whole(items)
	}
}

// equal counts the comparison of a value with others.
func (m *meter) equal(v any, others ...any) {
	switch v := v.(type) {
	case map[string]any, []any:
		m.whole(others)
	case json.Number:
		for _, other := range others { // both numbers are parsed each time
			if n, ok := other.(json.Number); ok && !m.spend(4+(width(v)+width(n))/8) {
				return
			}
		}
	default:
		m.spend(len(others) / 8)
	}
}

// names counts the search for members with these names.
func (m *meter) names(names ...string) {
	steps := len(names)
	for _, name := range names {
		steps += len(name) / 64
	}
	m.spend((steps + 3) / 4)
}

// whole counts a value and all that is in it.
func (m *meter) whole(v any) {
	if !m.spend(1) {
		return
	}
	switch v := v.(type) {
	case map[string]any:
		for _, member := range v {
			m.whole(member)
		}
	case []any:
		for _, item := range v {
			m.whole(item)
		}
	case json.Number:
		m.number(v)
	}
}

// number counts the steps to compute with a number.
func (m *meter) number(n json.Number) {
	digits := width(n)
	if m.spend(digits/8) && digits > maxDigits {
		m.err = costly("the value has a number of more than %d digits", maxDigits)
	}
}

// match counts the search of a text for a regular expression, which may be nil: its time grows with the product of their sizes.
func (m *meter) match(re jsonschema.Regexp, text string) {
	if known, ok := re.(pattern); ok {
		m.spend(1 + known.size*len(text)/32)
	}
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

package schema

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// A meter counts the steps of a validation, and has the comparisons that may take many.
type meter struct {
	ctx   context.Context
	steps int           // that may still be taken
	look  int           // steps until the next look at ctx
	slow  time.Duration // that backtrackers have taken
}

// stopped is the value with which stop panics.
type stopped struct{ err error }

// stop ends the validation: Validate returns err.
func (m *meter) stop(err error) { panic(stopped{err}) }

// spend counts steps, and ends the validation if no step is left, or its context has ended.
func (m *meter) spend(steps int) {
	m.steps -= steps
	if m.look -= steps; m.look > 0 && m.steps >= 0 {
		return
	}
	if m.steps < 0 {
		m.stop(costly("it takes too many steps for this value"))
	}
	if m.ctx.Err() != nil {
		m.stop(context.Cause(m.ctx))
	}
	m.look = stepsPerLook
}

// finds reports whether the expression matches somewhere in the text. The time that takes grows
// with the product of their sizes.
func (m *meter) finds(re jsonschema.Regexp, text string) bool {
	if p, ok := re.(pattern); ok {
		m.spend(1 + p.size*len(text)/32)
	}
	if b, ok := re.(backtracker); ok {
		began := time.Now()
		found, err := b.Regexp.MatchString(text)
		m.spend(1)
		if m.slow += time.Since(began); err != nil || m.slow > maxSlow {
			m.stop(costly("a regular expression takes too long for this value"))
		}
		return found
	}
	return re.MatchString(text)
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

// isInteger reports whether the number has no fraction; so do 1.0 and 1e2.
func (m *meter) isInteger(n json.Number) bool {
	return !strings.ContainsAny(string(n), ".eE") || m.rational(n).IsInt()
}

// rational returns the value of a number.
func (m *meter) rational(n json.Number) *big.Rat {
	m.spendFor(n)
	value, _ := new(big.Rat).SetString(string(n))
	return value
}

// spendFor counts the steps to compute with a number.
func (m *meter) spendFor(n json.Number) {
	digits := width(n)
	if digits > maxDigits {
		m.stop(ErrCostly)
	}
	m.spend(1 + digits/8)
}

// isOneOf reports whether the value is equal to one of the others. Numbers are compared by value.
func (m *meter) isOneOf(v any, others ...any) bool {
	key := m.appendKey(nil, v)
	return slices.ContainsFunc(others, func(other any) bool { return bytes.Equal(key, m.appendKey(nil, other)) })
}

// duplicates returns the places of two equal items, and -1 if all are different.
func (m *meter) duplicates(items []any) (int, int) {
	seen := make(map[string]int, len(items))
	for i, item := range items {
		key := string(m.appendKey(nil, item))
		if j, ok := seen[key]; ok {
			return j, i
		}
		seen[key] = i
	}
	return -1, -1
}

// appendKey appends a text that is the same for equal values only.
func (m *meter) appendKey(key []byte, v any) []byte {
	m.spend(1)
	switch v := v.(type) {
	case map[string]any:
		key = append(key, '{')
		for _, name := range slices.Sorted(maps.Keys(v)) {
			key = strconv.AppendQuote(key, name)
			key = m.appendKey(append(key, ':'), v[name])
		}
		return append(key, '}')
	case []any:
		key = append(key, '[')
		for _, item := range v {
			key = append(m.appendKey(key, item), ',')
		}
		return append(key, ']')
	case json.Number:
		return append(key, m.rational(v).RatString()...)
	case string:
		m.spend(len(v) / 64)
		return strconv.AppendQuote(key, v)
	case bool:
		return strconv.AppendBool(key, v)
	}
	return append(key, "null"...)
}

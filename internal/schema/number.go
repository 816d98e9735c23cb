package schema

import (
	"encoding/json"
	"math/big"
	"strconv"
	"strings"
)

// isSmall reports whether the number, written out, has at most maxDigits digits. Others take
// very long to compute with: a power of ten is one number, whatever its exponent.
func isSmall(n json.Number) bool {
	digits, exponent, found := strings.Cut(strings.ToLower(string(n)), "e")
	if !found {
		return len(digits) <= maxDigits
	}
	e, err := strconv.Atoi(exponent)
	return err == nil && len(digits)+max(e, -e) <= maxDigits
}

// isInteger reports whether the number has no fraction; 1.0 and 1e2 have none.
func (e *evaluation) isInteger(n json.Number) bool {
	return !strings.ContainsAny(string(n), ".eE") || e.number(n).IsInt()
}

// number returns the value of a number.
func (e *evaluation) number(n json.Number) *big.Rat {
	if !isSmall(n) {
		e.stop(ErrCostly)
	}
	e.spend(1 + len(n)/16)
	value, _ := new(big.Rat).SetString(string(n))
	return value
}

// equal reports whether two JSON values are equal. Numbers are compared by value.
func (e *evaluation) equal(a, b any) bool {
	e.spend(1)
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for key, value := range a {
			if other, ok := b[key]; !ok || !e.equal(value, other) {
				return false
			}
		}
		return true
	case []any:
		b, ok := b.([]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for i := range a {
			if !e.equal(a[i], b[i]) {
				return false
			}
		}
		return true
	case json.Number:
		b, ok := b.(json.Number)
		return ok && (a == b || e.number(a).Cmp(e.number(b)) == 0)
	case string:
		b, ok := b.(string)
		if ok && len(a) == len(b) {
			e.spend(len(a) / 256)
		}
		return ok && a == b
	}
	return a == b // nil and booleans
}

// duplicates returns the places of two equal items, and -1 if all are different.
func (e *evaluation) duplicates(items []any) (int, int) {
	seen := make(map[string]int, len(items))
	for i, item := range items {
		key := string(e.appendKey(nil, item))
		if j, ok := seen[key]; ok {
			return j, i
		}
		seen[key] = i
	}
	return -1, -1
}

// appendKey appends a text that is the same for equal values only.
func (e *evaluation) appendKey(key []byte, v any) []byte {
	e.spend(1)
	switch v := v.(type) {
	case map[string]any:
		key = append(key, '{')
		for _, name := range sortedKeys(v) {
			key = strconv.AppendQuote(key, name)
			key = e.appendKey(append(key, ':'), v[name])
		}
		return append(key, '}')
	case []any:
		key = append(key, '[')
		for _, item := range v {
			key = append(e.appendKey(key, item), ',')
		}
		return append(key, ']')
	case json.Number:
		return append(key, e.number(v).RatString()...)
	case string:
		e.spend(len(v) / 64)
		return strconv.AppendQuote(key, v)
	case bool:
		return strconv.AppendBool(key, v)
	}
	return append(key, "null"...)
}

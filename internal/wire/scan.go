package wire

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math/bits"
	"slices"
)

// maxDepth bounds the nesting of a message, with the same bound as encoding/json.
const maxDepth = 10000

// A survey is the notes of a scan on the bytes that it passes.
type survey struct {
	bits      uint64 // all bytes of strings, eight at a time, or-ed: without a high bit all is ASCII
	surrogate bool   // an escape in a string is half of a pair of UTF-16, perhaps without the other half
	deepest   int    // the levels of arrays and objects, the outermost one included
	inside    int    // values in arrays and objects
	media     bool   // a string begins as the types of pictures and sounds do
}

func (s *survey) isASCII() bool { return s.bits&highs == 0 }

type syntaxError struct {
	offset int
	what   string
}

func (e *syntaxError) Error() string {
	return fmt.Sprintf("invalid JSON at byte %d: %s", e.offset, e.what)
}

// Members calls f for each member of the JSON object in b, in order, with the unquoted key and
// the value, which is a sub-slice of b. When f returns false, Members stops without an error. It
// checks that b is valid JSON up to that point; white space around the object is allowed.
func Members(b []byte, f func(key string, value []byte) bool) error {
	return members(b, new(survey), func(key []byte, start, end int) bool { return f(string(key), b[start:end:end]) })
}

// All returns the members of the JSON object in b, in order, as [Members] does: none for another value, and those before the
// fault if b is not valid.
func All(b []byte) iter.Seq2[string, json.RawMessage] {
	return func(yield func(string, json.RawMessage) bool) {
		_ = members(b, new(survey), func(key []byte, start, end int) bool { return yield(string(key), b[start:end:end]) })
	}
}

// Keys returns the keys of the members that [All] returns.
func Keys(b []byte) (keys []string) {
	for key := range All(b) {
		keys = append(keys, key)
	}
	return keys
}

// Values returns the elements of the JSON array in b, in order, as [Elements] does: none for another value, and those before
// the fault if b is not valid.
func Values(b []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) { _ = Elements(b, yield) }
}

// members does the same as Members, with the bytes of the key, the offsets of the value and a survey. Since it is not inlined, its
// callers are, and make no string of a key.
//
//go:noinline
func members(b []byte, seen *survey, f func(key []byte, start, end int) bool) error {
	return each(b, '{', "not an object", seen, func(quoted []byte, start, end int) bool {
		key := quoted[1 : len(quoted)-1]
		if bytes.IndexByte(key, '\\') >= 0 {
			text, _ := unquote(quoted)
			key = []byte(text)
		}
		return f(key, start, end)
	})
}

// Elements calls f for each element of the JSON array in b, in order. The element is a sub-slice
// of b. When f returns false, Elements stops without an error.
func Elements(b []byte, f func(value []byte) bool) error {
	return each(b, '[', "not an array", new(survey), func(_ []byte, start, end int) bool { return f(b[start:end:end]) })
}

// each calls f for each part of the array or object in b, which begins with open; see skipContainer.
func each(b []byte, open byte, otherwise string, seen *survey, f func(quoted []byte, start, end int) bool) error {
	i := skipSpace(b, 0)
	if i >= len(b) || b[i] != open {
		return &syntaxError{i, otherwise}
	}
	switch end, err := skipContainer(b, i, 0, seen, f); err {
	case nil:
		return trailing(b, end)
	case errStopped:
		return nil
	default:
		return err
	}
}

// errStopped is the error of skipContainer after f has returned false.
var errStopped = errors.New("stopped")

// Member returns the value of the member with this key, the last one if it occurs more than
// once. It returns nil without such a member, or if b is not a valid object.
func Member(b []byte, key string) (value []byte) {
	if members(b, new(survey), func(k []byte, start, end int) bool {
		if string(k) == key {
			value = b[start:end:end]
		}
		return true
	}) != nil {
		return nil
	}
	return value
}

// Pick does the same as [Member] for several keys in one scan: it sets the value in the place of each key. An error says why b is not
// a valid object; the values are those before the fault then.
func Pick(b []byte, values [][]byte, keys ...string) error {
	return pick(b, new(survey), values, keys...)
}

// PickMedia does the same as [Pick], and reports whether any string in b begins with image or
// audio, as the types of pictures and sounds do: the scan that it needs anyway finds that.
func PickMedia(b []byte, values [][]byte, keys ...string) (media bool, err error) {
	var seen survey
	err = pick(b, &seen, values, keys...)
	return seen.media, err
}

func pick(b []byte, seen *survey, values [][]byte, keys ...string) error {
	return members(b, seen, func(key []byte, start, end int) bool {
		if i := slices.IndexFunc(keys, func(wanted string) bool { return wanted == string(key) }); i >= 0 {
			values[i] = b[start:end:end]
		}
		return true
	})
}

// String returns the string that the JSON value b is, or false if b is not a string.
func String(b []byte) (string, bool) {
	if len(b) == 0 || b[0] != '"' {
		return "", false
	}
	s, err := unquote(b)
	return s, err == nil
}

// Text returns the member of an object if it is a string, else "".
func Text(object []byte, key string) string {
	value, _ := String(Member(object, key))
	return value
}

// IsString reports whether the JSON value b is this string.
func IsString(b []byte, s string) bool {
	v, ok := String(b)
	return ok && v == s
}

// IsObject reports whether the valid JSON value b is an object.
func IsObject(b []byte) bool {
	i := skipSpace(b, 0)
	return i < len(b) && b[i] == '{'
}

// IsArray reports whether the valid JSON value b is an array.
func IsArray(b []byte) bool {
	i := skipSpace(b, 0)
	return i < len(b) && b[i] == '['
}

// Valid reports whether b is one valid JSON value.
func Valid(b []byte) bool {
	_, err := Levels(b)
	return err == nil
}

// Levels returns how deep the arrays and objects in b are nested: [1] has one level. An error says why b is
// not one valid JSON value; the levels are those before the fault then.
func Levels(b []byte) (levels int, err error) {
	var seen survey
	i, err := skipValue(b, skipSpace(b, 0), 0, &seen)
	if err == nil {
		err = trailing(b, i)
	}
	return seen.deepest, err
}

// Count returns how many values there are in b, a JSON value itself; of one that is not valid, those before the fault.
func Count(b []byte) int {
	var seen survey
	_, _ = skipValue(b, skipSpace(b, 0), 0, &seen)
	return 1 + seen.inside
}

// Decode returns the JSON value in b, as encoding/json decodes it into an any, with numbers as
// [json.Number].
func Decode(b []byte) (v any, err error) {
	if _, err = Levels(b); err == nil { // encoding/json allows more after the value
		d := json.NewDecoder(bytes.NewReader(b))
		d.UseNumber()
		err = d.Decode(&v)
	}
	return v, err
}

func trailing(b []byte, i int) error {
	if i = skipSpace(b, i); i < len(b) {
		return &syntaxError{i, "unexpected bytes after the value"}
	}
	return nil
}

func skipSpace(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\t' || b[i] == '\n' || b[i] == '\r') {
		i++
	}
	return i
}

// skipValue returns the offset after the value that begins at b[i].
func skipValue(b []byte, i, depth int, seen *survey) (int, error) {
	if i >= len(b) {
		return i, &syntaxError{i, "expected a value"}
	}
	switch c := b[i]; {
	case c == '"':
		return skipString(b, i, seen)
	case c == '{' || c == '[':
		return skipContainer(b, i, depth, seen, nil)
	case c == 't':
		return skipLiteral(b, i, "true")
	case c == 'f':
		return skipLiteral(b, i, "false")
	case c == 'n':
		return skipLiteral(b, i, "null")
	case c == '-' || c >= '0' && c <= '9':
		return skipNumber(b, i)
	}
	return i, &syntaxError{i, "expected a value"}
}

// skipContainer returns the offset after the array or object that begins at b[i]. It calls f, unless that is nil, for each element
// or member, with the key of a member and the offsets of the value.
func skipContainer(b []byte, i, depth int, seen *survey, f func(quoted []byte, start, end int) bool) (int, error) {
	if depth >= maxDepth {
		return i, ErrTooDeep
	}
	seen.deepest = max(seen.deepest, depth+1)
	object := b[i] == '{'
	end := byte(']')
	if object {
		end = '}'
	}
	i = skipSpace(b, i+1)
	if i < len(b) && b[i] == end {
		return i + 1, nil
	}
	var err error
	for {
		var quoted []byte
		if object {
			start := i
			if i, err = skipString(b, i, seen); err != nil {
				return i, err
			}
			quoted = b[start:i]
			if i = skipSpace(b, i); i >= len(b) || b[i] != ':' {
				return i, &syntaxError{i, "expected a colon"}
			}
			i = skipSpace(b, i+1)
		}
		start := i
		if i, err = skipValue(b, i, depth+1, seen); err != nil {
			return i, err
		}
		seen.inside++
		if f != nil && !f(quoted, start, i) {
			return i, errStopped
		}
		i = skipSpace(b, i)
		switch {
		case i < len(b) && b[i] == ',':
			i = skipSpace(b, i+1)
		case i < len(b) && b[i] == end:
			return i + 1, nil
		default:
			return i, &syntaxError{i, "expected a comma or the end"}
		}
	}
}

func skipLiteral(b []byte, i int, word string) (int, error) {
	if len(b)-i < len(word) || string(b[i:i+len(word)]) != word {
		return i, &syntaxError{i, "expected " + word}
	}
	return i + len(word), nil
}

func skipNumber(b []byte, i int) (_ int, err error) {
	if b[i] == '-' {
		i++
	}
	if i < len(b) && b[i] == '0' {
		i++
	} else if i, err = skipDigits(b, i); err != nil {
		return i, err
	}
	if i < len(b) && b[i] == '.' {
		if i, err = skipDigits(b, i+1); err != nil {
			return i, err
		}
	}
	if i < len(b) && (b[i] == 'e' || b[i] == 'E') {
		i++
		if i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		return skipDigits(b, i)
	}
	return i, nil
}

// skipDigits returns the offset after the digits at b[i], of which there must be at least one.
func skipDigits(b []byte, i int) (int, error) {
	first := i
	for i < len(b) && b[i] >= '0' && b[i] <= '9' {
		i++
	}
	if i == first {
		return i, &syntaxError{i, "expected a digit"}
	}
	return i, nil
}

// skipString returns the offset after the string with the opening quote b[i]. It scans eight
// bytes at a time, since nearly all of a large message is inside strings.
func skipString(b []byte, i int, seen *survey) (int, error) {
	if i >= len(b) || b[i] != '"' {
		return i, &syntaxError{i, "expected a string"}
	}
	i++
	if len(b)-i >= 5 && (string(b[i:i+5]) == "image" || string(b[i:i+5]) == "audio") {
		seen.media = true
	}
	var all uint64 // for seen.bits
	for {
		for len(b)-i >= 8 {
			word := binary.LittleEndian.Uint64(b[i:])
			all |= word
			if mask := special(word); mask != 0 {
				i += bits.TrailingZeros64(mask) / 8
				break
			}
			i += 8
		}
		for i < len(b) && b[i] >= 0x20 && b[i] != '"' && b[i] != '\\' {
			all |= uint64(b[i])
			i++
		}
		switch {
		case i >= len(b):
			return i, &syntaxError{i, "string without end"}
		case b[i] == '"':
			seen.bits |= all
			return i + 1, nil
		case b[i] == '\\':
			n := escapeLen(b[i:])
			if n == 0 {
				return i, &syntaxError{i, "invalid escape"}
			}
			if n == 6 && isSurrogate(b[i:]) {
				seen.surrogate = true
			}
			i += n
		default:
			return i, &syntaxError{i, "control character in a string"}
		}
	}
}

const ones, highs = 0x0101010101010101, 0x8080808080808080 // the lowest and the highest bit of each byte

// special returns a mask with the lowest set bit in the first byte of w (the least significant
// one) that is a quote, a backslash or a control character.
func special(w uint64) uint64 {
	quote := w ^ ones*'"'
	slash := w ^ ones*'\\'
	return ((quote-ones)&^quote | (slash-ones)&^slash | (w-ones*0x20)&^w) & highs
}

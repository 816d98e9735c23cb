package wire

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"unicode/utf8"
)

// An Object is a JSON object that was read whole: it is valid UTF-8, nothing stands after it, no key stands twice at its top,
// it has no line end, no half of a surrogate pair and at most [MaxLevels]. Only [ParseObject] makes one, so that the parameters of a message can't end
// the message, add members to it, or mean one thing to the router and another to a server. The zero value is no object.
type Object struct{ bytes json.RawMessage }

// ParseObject reads an object. Of no bytes it returns the zero value.
func ParseObject(b []byte) (Object, error) {
	if len(b) == 0 {
		return Object{}, nil
	}
	var twice error
	few := make([][]byte, 0, 8)
	var many map[string]bool // the keys after few
	var seen survey
	err := members(b, &seen, func(key []byte, _, _ int) bool {
		if many[string(key)] || slices.ContainsFunc(few, func(k []byte) bool { return bytes.Equal(k, key) }) {
			twice = fmt.Errorf("the key %.100q stands there twice; send it once", key)
			return false
		}
		switch {
		case len(few) < cap(few):
			few = append(few, key)
		case many == nil:
			many = map[string]bool{string(key): true}
		default:
			many[string(key)] = true
		}
		return true
	})
	switch err = cmp.Or(twice, err); {
	case err != nil:
		return Object{}, err
	case seen.deepest > MaxLevels:
		return Object{}, ErrTooDeep
	case !seen.isASCII() && !utf8.Valid(b):
		return Object{}, ErrNotUTF8
	case HasLineEnd(b):
		var compact bytes.Buffer
		if err := json.Compact(&compact, b); err != nil {
			return Object{}, err
		}
		b = compact.Bytes()
	case seen.surrogate:
		b = bytes.Clone(b)
	}
	replaceLone(b)
	return Object{b}, nil
}

// Bytes returns the object as JSON, nil for the zero value.
func (o Object) Bytes() json.RawMessage { return o.bytes }

package wire

import (
	"bytes"
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
	keys := make([][]byte, 0, 8)
	var seen survey
	err := members(b, &seen, func(key []byte, _, _ int) bool {
		keys = append(keys, key)
		return true
	})
	slices.SortFunc(keys, bytes.Compare)
	for i := 1; i < len(keys); i++ {
		if bytes.Equal(keys[i-1], keys[i]) {
			return Object{}, fmt.Errorf("the key %.100q stands there twice; send it once", keys[i])
		}
	}
	switch {
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

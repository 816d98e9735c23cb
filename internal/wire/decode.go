package wire

import "encoding/json"

// Decode returns the JSON value in b, as encoding/json decodes it into an any, with numbers as
// [json.Number].
func Decode(b []byte) (any, error) {
	v, i, err := decode(b, skipSpace(b, 0), 0)
	if err == nil {
		err = trailing(b, i)
	}
	if err != nil {
		return nil, err
	}
	return v, nil
}

// decode returns the value that begins at b[i] and the offset after it.
func decode(b []byte, i, depth int) (v any, end int, err error) {
	if i < len(b) && (b[i] == '{' || b[i] == '[') {
		if depth >= maxDepth {
			return nil, i, ErrTooDeep
		}
		if b[i] == '{' {
			return decodeObject(b, i, depth)
		}
		return decodeArray(b, i, depth)
	}
	if end, err = skipValue(b, i, depth, new(survey)); err != nil {
		return nil, end, err
	}
	switch b[i] {
	case '"':
		v, err = unquote(b[i:end])
	case 't':
		v = true
	case 'f':
		v = false
	case 'n':
	default:
		v = json.Number(b[i:end])
	}
	return v, end, err
}

func decodeObject(b []byte, i, depth int) (map[string]any, int, error) {
	object := make(map[string]any)
	if i = skipSpace(b, i+1); i < len(b) && b[i] == '}' {
		return object, i + 1, nil
	}
	for {
		end, err := skipString(b, i, new(survey))
		if err != nil {
			return nil, end, err
		}
		key, err := unquote(b[i:end])
		if err != nil {
			return nil, i, err
		}
		if i = skipSpace(b, end); i >= len(b) || b[i] != ':' {
			return nil, i, &syntaxError{i, "expected a colon"}
		}
		if object[key], i, err = decode(b, skipSpace(b, i+1), depth+1); err != nil {
			return nil, i, err
		}
		switch i = skipSpace(b, i); {
		case i < len(b) && b[i] == ',':
			i = skipSpace(b, i+1)
		case i < len(b) && b[i] == '}':
			return object, i + 1, nil
		default:
			return nil, i, &syntaxError{i, "expected a comma or the end of the object"}
		}
	}
}

func decodeArray(b []byte, i, depth int) ([]any, int, error) {
	array := []any{}
	if i = skipSpace(b, i+1); i < len(b) && b[i] == ']' {
		return array, i + 1, nil
	}
	for {
		v, end, err := decode(b, i, depth+1)
		if err != nil {
			return nil, end, err
		}
		array = append(array, v)
		switch i = skipSpace(b, end); {
		case i < len(b) && b[i] == ',':
			i = skipSpace(b, i+1)
		case i < len(b) && b[i] == ']':
			return array, i + 1, nil
		default:
			return nil, i, &syntaxError{i, "expected a comma or the end of the array"}
		}
	}
}

package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"unicode/utf8"
)

// MaxLevels is how deep the arrays and objects in a member of a message may be nested:
// [1] has one level. Parsers in use give up at 128 levels or more.
const MaxLevels = 100

// Faults of messages, see [Message].
var (
	ErrNotUTF8 = errors.New("not UTF-8")
	ErrTooDeep = errors.New("nested too deep")
)

// judge returns the fault of the message in the line, from the survey of a scan. Before that
// it replaces the escapes in the line that many parsers refuse.
func (m *Message) judge(line []byte, seen *survey) error {
	if seen.surrogate {
		replaceLone(line)
	}
	switch {
	case !seen.isASCII() && !utf8.Valid(line):
		if !utf8.Valid(m.ID) {
			m.ID = nil // so that an answer can't repeat it
		}
		return ErrNotUTF8
	case seen.deepest > 1+MaxLevels: // the message is an object itself
		return ErrTooDeep
	}
	return nil
}

// replaceLone replaces each escape in valid JSON that is half of a surrogate pair without the
// other half, such as \ud800, by \ufffd in place.
func replaceLone(b []byte) {
	for i := 0; ; {
		next := bytes.IndexByte(b[i:], '\\')
		if next < 0 {
			return
		}
		i += next
		switch {
		case b[i+1] != 'u':
			i += 2
		case !isSurrogate(b[i:]):
			i += 6
		case isHigh(b[i:]) && i+12 <= len(b) && b[i+6] == '\\' && b[i+7] == 'u' && isSurrogate(b[i+6:]) && !isHigh(b[i+6:]):
			i += 12
		default:
			copy(b[i+2:], "fffd")
			i += 6
		}
	}
}

// isSurrogate reports whether the escape \uXXXX at the start of b is half of a surrogate
// pair: \ud800 to \udfff.
func isSurrogate(b []byte) bool { return b[2]|0x20 == 'd' && b[3] >= '8' }

// isHigh reports whether such an escape is the first half of a pair: \ud800 to \udbff.
func isHigh(b []byte) bool { return b[3]|0x20 <= 'b' }

// LooseID returns the id of a message that can't be parsed, from the ends of its line: writers put
// it in either place. It returns nil if the id is in neither.
func LooseID(line Ends) json.RawMessage {
	var found [1][]byte
	if _ = Pick(line.Head, found[:], "id"); found[0] != nil {
		return found[0]
	}
	const name = `"id":`
	i := bytes.LastIndex(line.Tail, []byte(name))
	tail, ok := bytes.CutSuffix(bytes.TrimRight(line.Tail, " \t\r\n"), []byte("}"))
	if i < 0 || !ok {
		return nil
	}
	if last := bytes.TrimSpace(tail[i+len(name):]); Valid(last) && !IsObject(last) && !IsArray(last) {
		return last
	}
	return nil
}

// unquote decodes a JSON string that skipString accepted.
func unquote(b []byte) (string, error) {
	inner := b[1 : len(b)-1]
	if bytes.IndexByte(inner, '\\') < 0 {
		return string(inner), nil
	}
	var s string
	err := json.Unmarshal(b, &s)
	return s, err
}

// escapeLen returns the length of the escape sequence at the start of b, 0 if it is invalid.
func escapeLen(b []byte) int {
	if len(b) < 2 {
		return 0
	}
	switch b[1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 2
	case 'u':
		if len(b) < 6 {
			return 0
		}
		for _, c := range b[2:6] {
			if !(c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F') {
				return 0
			}
		}
		return 6
	}
	return 0
}

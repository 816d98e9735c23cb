package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
)

// A Message is the envelope of a JSON-RPC message. The byte slices are parts of the parsed
// line, nil if the member is absent.
type Message struct {
	Version json.RawMessage // the member jsonrpc; nil if absent
	ID      json.RawMessage // a number or a string; nil if absent or null
	Method  string
	Params  json.RawMessage
	Result  json.RawMessage
	Error   json.RawMessage

	// Fault says why Params, Result and Error must not be passed on as they are: [ErrNotUTF8]
	// or [ErrTooDeep]. It is nil for nearly all messages.
	Fault error
}

// IsRequest reports whether the message has a method and an id.
func (m *Message) IsRequest() bool { return m.Method != "" && m.ID != nil }

// IsNotification reports whether the message has a method and no id.
func (m *Message) IsNotification() bool { return m.Method != "" && m.ID == nil }

// IsResponse reports whether the message has a result or an error and no method.
func (m *Message) IsResponse() bool { return m.Method == "" && (m.Result != nil || m.Error != nil) }

var errNoMessage = errors.New("no JSON-RPC message: neither method nor result nor error")

// Parse returns the envelope of the JSON-RPC message in line. It is an error if line is not one
// valid JSON object, or not a message. In line, Parse replaces each escape of half a surrogate
// pair, such as \ud800, by \ufffd.
func Parse(line []byte) (Message, error) {
	var found [6][]byte
	var seen survey
	if err := pick(line, &seen, found[:], "jsonrpc", "id", "method", "params", "result", "error"); err != nil {
		return Message{}, err
	}
	method := found[2]
	m := Message{Version: found[0], ID: found[1], Params: found[3], Result: found[4], Error: found[5]}
	m.Fault = m.judge(line, &seen)
	if string(m.ID) == "null" {
		m.ID = nil
	}
	if m.ID != nil && m.ID[0] != '"' && m.ID[0] != '-' && (m.ID[0] < '0' || m.ID[0] > '9') {
		return m, errors.New("the id is neither a number nor a string")
	}
	if string(m.Error) == "null" { // some servers send both
		m.Error = nil
	}
	if method != nil {
		ok := string(method) == `"tools/call"`
		if ok {
			m.Method = "tools/call" // most messages; it needs no new string
		} else {
			m.Method, ok = String(method)
		}
		if !ok || m.Method == "" {
			return m, errors.New("the method is not a string")
		}
	}
	if m.Method == "" && m.Result == nil && m.Error == nil {
		return m, errNoMessage
	}
	return m, nil
}

// AppendRequest appends a request and a line end to dst. The zero value of params is left out.
func AppendRequest(dst []byte, id int64, method string, params Object) []byte {
	dst = append(dst, `{"jsonrpc":"2.0","id":`...)
	dst = strconv.AppendInt(dst, id, 10)
	return appendMethod(append(dst, ','), method, params)
}

// AppendNotification appends a notification and a line end to dst, as [AppendRequest] does.
func AppendNotification(dst []byte, method string, params Object) []byte {
	return appendMethod(append(dst, `{"jsonrpc":"2.0",`...), method, params)
}

func appendMethod(dst []byte, method string, params Object) []byte {
	dst = append(dst, `"method":`...)
	dst = AppendString(dst, method)
	if params.bytes != nil {
		dst = append(dst, `,"params":`...)
		dst = append(dst, params.bytes...)
	}
	return append(dst, "}\n"...)
}

// AppendResult appends a response and a line end to dst. id and result must be valid JSON
// without line ends.
func AppendResult(dst []byte, id, result []byte) []byte {
	return appendResponse(dst, id, `,"result":`, result)
}

// AppendError appends an error response and a line end to dst. A nil id becomes null.
func AppendError(dst []byte, id, errorObject []byte) []byte {
	if id == nil {
		id = []byte("null")
	}
	return appendResponse(dst, id, `,"error":`, errorObject)
}

func appendResponse(dst, id []byte, member string, value []byte) []byte {
	dst = append(append(dst, `{"jsonrpc":"2.0","id":`...), id...)
	return append(append(append(dst, member...), value...), "}\n"...)
}

// AppendString appends s as a JSON string.
func AppendString(dst []byte, s string) []byte {
	for i := 0; i < len(s); i++ {
		if c := s[i]; c < 0x20 || c >= 0x7f || c == '"' || c == '\\' {
			return append(dst, Marshal(s)...)
		}
	}
	dst = append(dst, '"')
	dst = append(dst, s...)
	return append(dst, '"')
}

// Marshal encodes v without escaping <, > and &. It panics if v cannot be encoded: v must consist
// of strings, numbers, maps, slices, structs and valid raw messages.
func Marshal(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic("wire: " + err.Error())
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// Span returns where the value of a member stands in the object. It reports false if the object is
// invalid or does not have the member exactly once.
func Span(object []byte, key string) (start, end int, ok bool) {
	found := 0
	if members(object, new(survey), func(k []byte, s, e int) bool {
		if string(k) == key {
			start, end = s, e
			found++
		}
		return true
	}) != nil {
		return 0, 0, false
	}
	return start, end, found == 1
}

// SetMember returns the object with the member set to value. It replaces the member, and all
// duplicates, in place, or adds it at the end. All other bytes remain. An invalid object is
// returned unchanged.
func SetMember(object []byte, key string, value []byte) []byte {
	var out []byte
	at := 0 // object[:at] is in out
	err := members(object, new(survey), func(k []byte, start, end int) bool {
		if string(k) == key {
			if out == nil {
				out = make([]byte, 0, len(object)+len(value))
			}
			out = append(append(out, object[at:start]...), value...)
			at = end
		}
		return true
	})
	switch {
	case err != nil:
		return object
	case out == nil:
		return AddMember(object, key, value)
	}
	return append(out, object[at:]...)
}

// OrEmpty returns the object, an empty one if it is absent.
func OrEmpty(object []byte) json.RawMessage {
	if len(object) == 0 {
		return json.RawMessage("{}")
	}
	return object
}

// SetMeta returns the object with a member of its _meta set.
func SetMeta(object []byte, key string, value []byte) []byte {
	meta := Member(object, "_meta")
	if !IsObject(meta) {
		meta = []byte("{}")
	}
	return SetMember(object, "_meta", SetMember(meta, key, value))
}

// AddMember returns the object with a new member at its end. The object must be valid and must
// not have the member: unlike [SetMember], AddMember does not scan it.
func AddMember(object []byte, key string, value []byte) []byte {
	end := bytes.LastIndexByte(object, '}')
	if end < 0 {
		return object
	}
	out := append(make([]byte, 0, len(object)+len(key)+len(value)+4), object[:end]...)
	return append(AppendMember(out, key, value), object[end:]...)
}

// AppendMember appends a member to the beginning of an object, which has its brace and perhaps members before.
func AppendMember(dst []byte, key string, value []byte) []byte {
	if before := bytes.TrimRight(dst, " \t\r\n"); before[len(before)-1] != '{' {
		dst = append(dst, ',')
	}
	return append(append(AppendString(dst, key), ':'), value...)
}

// Merge returns an object with the members of a valid object, and then those of another one that it lacks.
func Merge(first, second []byte) []byte {
	keys := Keys(first)
	merged := append(make([]byte, 0, len(first)+len(second)), bytes.TrimSpace(first[:bytes.LastIndexByte(first, '}')])...)
	for key, value := range All(second) {
		if !slices.Contains(keys, key) {
			merged = AppendMember(merged, key, value)
		}
	}
	return append(merged, '}')
}

// Abridge returns the JSON value with each string that is longer than limit bytes replaced by a
// short one. Keys remain. Invalid JSON remains invalid.
func Abridge(b []byte, limit int) []byte {
	const short = `"\u0000abridged"`
	out := make([]byte, 0, min(len(b), 4*limit))
	kept := 0 // b[:kept] is in out
	for i := 0; i < len(b); i++ {
		if b[i] != '"' {
			continue
		}
		end, err := skipString(b, i, new(survey))
		if err != nil {
			return b
		}
		if after := skipSpace(b, end); end-i > limit && (after == len(b) || b[after] != ':') {
			out = append(append(out, b[kept:i]...), short...)
			kept = end
		}
		i = end - 1
	}
	return append(out, b[kept:]...)
}

// HasLineEnd reports whether b has a line end: white space in JSON, but over stdio the end of
// the message.
func HasLineEnd(b []byte) bool {
	return bytes.IndexByte(b, '\n') >= 0 || bytes.IndexByte(b, '\r') >= 0
}

// OneLine replaces the line ends in valid JSON by spaces. Most messages have none, and are not read byte by byte.
func OneLine(b []byte) {
	if !HasLineEnd(b) {
		return
	}
	for i, c := range b {
		if c == '\n' || c == '\r' {
			b[i] = ' '
		}
	}
}

// DeleteMember returns the object without the member. The other members remain byte for byte,
// without the white space between them. An object that is invalid or does not have the member is
// returned unchanged.
func DeleteMember(object []byte, key string) []byte {
	out := append(make([]byte, 0, len(object)), '{')
	found := false
	if Members(object, func(k string, value []byte) bool {
		if k == key {
			found = true
		} else {
			out = AppendMember(out, k, value)
		}
		return true
	}) != nil || !found {
		return object
	}
	return append(out, '}')
}

package server

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"

	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/session"
)

// Modern clients repeat in headers what proxies may want to know of a message
// (SEP-2243): "Servers that process the request body MUST reject requests where
// the values specified in the headers do not match the values in the request
// body."

func mismatch(format string, args ...any) error {
	return &session.Error{Code: codeHeaderMismatch, Message: "header mismatch: " + fmt.Sprintf(format, args...)}
}

// checkHeaders compares the headers of a modern message with its body. A request
// that says nothing of its version is left to [conversation.begin].
func (x *exchange) checkHeaders(m wire.Message) error {
	header := x.r.Header
	version := header.Get(headerVersion)
	said := wire.Member(wire.Member(m.Params, "_meta"), metaVersion)
	switch {
	case m.IsRequest() && said == nil:
		return invalidParams("the request has no " + metaVersion + " in _meta; a client that has no session yet begins with initialize")
	case m.IsRequest() && version == "":
		return mismatch("%s is missing, and the body says %s", headerVersion, said)
	case said != nil && !same(version, said):
		return mismatch("%s is %q, and the body says %s", headerVersion, version, said)
	case version != session.Modern:
		return unsupported(version)
	case header.Get(headerMethod) != m.Method:
		return mismatch("%s is %q, and the body says %q", headerMethod, header.Get(headerMethod), m.Method)
	}
	return x.checkName(m)
}

// names are the parameters that the name header repeats, by method, and whether
// the header must be there.
var names = map[string]struct {
	param  string
	needed bool
}{
	"tools/call":     {"name", true},
	"prompts/get":    {"name", true},
	"resources/read": {"uri", true},
	"tasks/get":      {"taskId", false},
	"tasks/update":   {"taskId", false},
	"tasks/cancel":   {"taskId", false},
}

func (x *exchange) checkName(m wire.Message) error {
	how, ok := names[m.Method]
	if !ok {
		return nil
	}
	value := x.r.Header.Get(headerName)
	if value == "" && !how.needed {
		return nil
	}
	name, ok := decodeHeader(value)
	if !ok {
		return mismatch("%s is not valid base64", headerName)
	}
	if said := wire.Member(m.Params, how.param); value == "" || !same(name, said) {
		return mismatch("%s is %q, and the body says %s", headerName, name, said)
	}
	if m.Method == "tools/call" {
		return x.h.server.checkParams(x.r.Header, name, wire.Member(m.Params, "arguments"))
	}
	return nil
}

// same reports whether the JSON value is the string.
func same(s string, value json.RawMessage) bool {
	v, ok := wire.String(value)
	return ok && v == s
}

// decodeHeader returns what a header says: base64 between =?base64? and ?=, else
// what it reads.
func decodeHeader(value string) (string, bool) {
	inner, ok := strings.CutPrefix(value, "=?base64?")
	if !ok {
		return value, true
	}
	if inner, ok = strings.CutSuffix(inner, "?="); !ok {
		return value, true
	}
	plain, err := base64.StdEncoding.DecodeString(inner)
	return string(plain), err == nil
}

// checkParams compares the headers that a tool's schema asks for with the
// arguments.
func (s *Server) checkParams(header http.Header, name string, args json.RawMessage) error {
	if _, own := s.own[name]; own {
		return nil
	}
	tool, err := s.view().names.Resolve(name)
	if err != nil || !bytes.Contains(tool.InputSchema, []byte("x-mcp-header")) {
		return nil // an unknown tool is refused elsewhere
	}
	return checkProperties(header, tool.InputSchema, args)
}

// checkProperties compares the headers of an object's properties with its
// members. Annotations count where only properties lead to them.
func checkProperties(header http.Header, schema, object json.RawMessage) (err error) {
	wire.Members(wire.Member(schema, "properties"), func(property string, schema []byte) bool {
		if !wire.IsObject(schema) {
			return true
		}
		value := wire.Member(object, property)
		if name, ok := wire.String(wire.Member(schema, "x-mcp-header")); ok && name != "" {
			err = checkParam(header, headerParam+name, value)
		}
		if err == nil {
			err = checkProperties(header, schema, value)
		}
		return err == nil
	})
	return err
}

func checkParam(header http.Header, name string, value json.RawMessage) error {
	text := header.Get(name)
	if value == nil || string(value) == "null" {
		if text != "" {
			return mismatch("%s is there, and the argument is not", name)
		}
		return nil
	}
	if text == "" && string(value) != `""` {
		return mismatch("%s is missing", name)
	}
	plain, ok := decodeHeader(text)
	if !ok {
		return mismatch("%s is not valid base64", name)
	}
	if !says(plain, value) {
		return mismatch("%s is %q, and the argument is %s", name, plain, value)
	}
	return nil
}

// says reports whether a header says the same as a string, boolean or integer.
func says(text string, value json.RawMessage) bool {
	switch value[0] {
	case '"':
		return same(text, value)
	case 't', 'f':
		return text == string(value)
	case '{', '[':
		return false
	}
	const most = 1<<53 - 1 // beyond it, clients of JavaScript can't tell integers apart
	want, err := strconv.ParseFloat(string(value), 64)
	if err != nil || want != math.Trunc(want) || math.Abs(want) > most {
		return false
	}
	got, err := strconv.ParseFloat(text, 64)
	return err == nil && got == want
}

// traced returns the request with the trace that the HTTP headers name in its _meta,
// where that names none: what lies between a client and us may know only headers.
func (x *exchange) traced(m wire.Message) wire.Message {
	if x.r.Header["Traceparent"] == nil && x.r.Header["Baggage"] == nil {
		return m
	}
	said := session.ReadTrace(func(key string) string { // several are one list; several traceparents are none
		return strings.Join(x.r.Header.Values(key), ",")
	})
	params := m.Params
	if params == nil || string(params) == "null" {
		params = json.RawMessage("{}")
	}
	meta := wire.Member(params, "_meta")
	has := session.TraceIn(meta)
	if has.Parent != "" {
		said.Parent, said.State = "", ""
	}
	if has.Baggage != "" {
		said.Baggage = ""
	}
	if said == (session.TraceContext{}) || meta != nil && !wire.IsObject(meta) {
		return m
	}
	m.Params = wire.SetMember(params, "_meta", said.Into(meta))
	return m
}

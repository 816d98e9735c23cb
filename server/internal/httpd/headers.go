package httpd

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"net/http"
	"strconv"
	"strings"

	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/server/internal/catalog"
	"github.com/mcp-metarouter/metarouter/server/internal/conversation"
)

// The headers of MCP.
const (
	headerSession = "Mcp-Session-Id"
	headerVersion = "Mcp-Protocol-Version"
	headerMethod  = "Mcp-Method"
	headerName    = "Mcp-Name"
	headerParam   = "Mcp-Param-"
	headerLastID  = "Last-Event-Id"
)

// accepts reports whether the client accepts answers of the type, and whether it
// names the type.
func accepts(r *http.Request, kind string) (ok, named bool) {
	values := r.Header.Values("Accept")
	family, _, _ := strings.Cut(kind, "/")
	ok = len(values) == 0
	for _, value := range values {
		for part := range strings.SplitSeq(value, ",") {
			part, _, _ = strings.Cut(part, ";")
			switch strings.ToLower(strings.TrimSpace(part)) {
			case kind:
				return true, true
			case family + "/*", "*/*":
				ok = true
			}
		}
	}
	return ok, false
}

// Modern clients repeat in headers the parts of a message that proxies may want to know
// (SEP-2243): "Servers that process the request body MUST reject requests where
// the values specified in the headers do not match the values in the request
// body."

func mismatch(format string, args ...any) error {
	return &session.Error{Code: conversation.CodeHeaderMismatch, Message: "header mismatch: " + fmt.Sprintf(format, args...)}
}

// checkHeaders compares the headers of a modern message with its body. A request
// that does not name its version is left to Begin of [conversation.Conversation].
func checkHeaders(c *catalog.Catalog, r *http.Request, m conversation.Message) error {
	header := r.Header
	version := header.Get(headerVersion)
	said := m.Protocol
	switch {
	case m.IsRequest() && said == nil:
		return session.InvalidParams("the request has no " + conversation.MetaVersion + " in _meta; a client that has no session yet begins with initialize")
	case m.IsRequest() && version == "":
		return mismatch("%s is missing, and the body says %s", headerVersion, said)
	case said != nil && !wire.IsString(said, version):
		return mismatch("%s is %q, and the body says %s", headerVersion, version, said)
	case version != session.Modern:
		return conversation.Unsupported(version)
	case header.Get(headerMethod) != m.Method:
		return mismatch("%s is %q, and the body says %q", headerMethod, header.Get(headerMethod), m.Method)
	}
	return checkName(c, header, m)
}

// checkName compares the header that repeats a name of the parameters, if the method has one.
func checkName(c *catalog.Catalog, header http.Header, m conversation.Message) error {
	value, said := header.Get(headerName), m.Name
	switch m.Method {
	case "tools/call", "prompts/get":
	case "resources/read":
		said = wire.Member(m.Params, "uri")
	case "tasks/get", "tasks/update", "tasks/cancel":
		if value == "" {
			return nil
		}
		said = wire.Member(m.Params, "taskId")
	default:
		return nil
	}
	name, ok := decodeHeader(value)
	if !ok {
		return mismatch("%s is not valid base64", headerName)
	}
	if value == "" || !wire.IsString(said, name) {
		return mismatch("%s is %q, and the body says %s", headerName, name, said)
	}
	if m.Method == "tools/call" {
		return checkParams(c, header, name, m.Args)
	}
	return nil
}

// decodeHeader returns the value of a header: decoded if it is base64 between =?base64?
// and ?=, else as it is.
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
func checkParams(c *catalog.Catalog, header http.Header, name string, args json.RawMessage) error {
	if c.IsOwn(name) {
		return nil
	}
	tool, ok := c.Listed(name)
	if !ok || !bytes.Contains(tool.InputSchema, []byte("x-mcp-header")) {
		return nil // the call of an unknown tool is refused later
	}
	return checkProperties(header, tool.InputSchema, args)
}

// checkProperties compares the headers of an object's properties with its
// members. Annotations count where only properties lead to them.
func checkProperties(header http.Header, schema, object json.RawMessage) (err error) {
	members := maps.Collect(wire.All(object))
	for property, schema := range wire.All(wire.Member(schema, "properties")) {
		if !bytes.Contains(schema, []byte("x-mcp-header")) {
			continue
		}
		value := members[property]
		if name, ok := wire.String(wire.Member(schema, "x-mcp-header")); ok && name != "" {
			err = checkParam(header, headerParam+name, value)
		}
		if err = cmp.Or(err, checkProperties(header, schema, value)); err != nil {
			return err
		}
	}
	return nil
}

func checkParam(header http.Header, name string, value json.RawMessage) error {
	text := header.Get(name)
	if value == nil || string(value) == "null" {
		if text != "" {
			return mismatch("%s is present, and the argument is absent", name)
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

// says reports whether a header has the same value as a string, boolean or integer.
func says(text string, value json.RawMessage) bool {
	switch value[0] {
	case '"':
		return wire.IsString(value, text)
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

// traced returns the request with the trace of the HTTP headers in its _meta, unless
// that has a trace: a proxy between client and router may know only headers.
func traced(header http.Header, m conversation.Message) conversation.Message {
	if header["Traceparent"] == nil && header["Baggage"] == nil {
		return m
	}
	trace := session.ReadTrace(func(key string) string { // several headers are one list, and several traceparents are invalid
		return strings.Join(header.Values(key), ",")
	})
	meta := m.Meta
	has := session.TraceIn(meta)
	if has.Parent != "" {
		trace.Parent, trace.State = "", ""
	}
	if has.Baggage != "" {
		trace.Baggage = ""
	}
	if trace == (session.TraceContext{}) || meta != nil && !wire.IsObject(meta) {
		return m
	}
	m.Params = wire.SetMember(wire.OrEmpty(m.Params), "_meta", trace.Into(meta))
	return conversation.Read(m.Message)
}

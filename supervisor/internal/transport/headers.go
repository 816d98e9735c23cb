package transport

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/net/http/httpguts"

	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/supervisor/internal/peer"
)

const (
	// annotation in a tool's input schema asks to repeat an argument in a header.
	annotation = "x-mcp-header"

	// maxSchemaDepth bounds how deep schemas are looked into.
	maxSchemaDepth = 100

	// maxPages bounds the pages that relist asks for.
	maxPages = 100

	maxSafeInteger = 1<<53 - 1
)

// errMismatch says that the server expects other headers than were sent.
var errMismatch = errors.New("the request's headers are not those that the server expects")

// address sets the headers in which the modern era repeats parts of the message
// (2026-07-28, transports/streamable-http, "Request Metadata").
func (s *mirrors) address(h http.Header, o *peer.Outgoing, revision string) {
	trace(h, o)
	switch {
	case o.Method == peer.Initialize:
		h.Del("MCP-Protocol-Version")
		h.Del("Mcp-Session-Id")
	case revision != "":
		h.Set("MCP-Protocol-Version", revision)
	}
	if revision < session.Modern || o.Method == "" {
		return
	}
	h.Set("Mcp-Method", o.Method)
	key := map[string]string{"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}[o.Method]
	if strings.HasPrefix(o.Method, "tasks/") {
		key = "taskId"
	}
	if name, ok := wire.String(wire.Member(o.Params, key)); ok && key != "" {
		h.Set("Mcp-Name", headerValue(name))
		if o.Method == "tools/call" {
			s.set(h, name, wire.Member(o.Params, "arguments"))
		}
	}
}

// trace repeats the trace context of the message in headers, for the proxies on the way
// to the server.
func trace(h http.Header, o *peer.Outgoing) {
	t := session.TraceIn(o.Meta)
	for name, value := range map[string]string{"Traceparent": t.Parent, "Tracestate": t.State, "Baggage": t.Baggage} {
		if value != "" {
			h.Set(name, value)
		}
	}
}

// headerValue returns s as a header's value, in Base64 if it can't be one as it is. An
// empty value is encoded too: it looks like a missing header.
func headerValue(s string) string {
	safe := s != "" && strings.Trim(s, " \t") == s && !(strings.HasPrefix(s, "=?base64?") && strings.HasSuffix(s, "?="))
	if safe && !strings.ContainsFunc(s, func(c rune) bool { return c < ' ' || c > '~' }) {
		return s
	}
	return "=?base64?" + base64.StdEncoding.EncodeToString([]byte(s)) + "?="
}

// A mirror is an argument of a tool that is repeated in a header.
type mirror struct {
	path   []string // of properties, from the arguments down
	header string
}

// mirrors are the mirrored arguments of a server's tools, by the list that was begun last and the last complete one: of older ones, a
// server could have any number.
type mirrors struct {
	mu              sync.Mutex // guards the fields below
	begun, complete map[string][]mirror
}

// of returns those of a tool.
func (s *mirrors) of(tool string) []mirror {
	s.mu.Lock()
	defer s.mu.Unlock()
	if all, ok := s.begun[tool]; ok {
		return all
	}
	return s.complete[tool]
}

// note notes those of all tools in a page of a list.
func (s *mirrors) note(page map[string][]mirror, first, last bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if first || s.begun == nil {
		s.begun = make(map[string][]mirror)
	}
	if maps.Copy(s.begun, page); last {
		s.complete = s.begun
	}
}

// set adds the headers of a call.
func (s *mirrors) set(h http.Header, tool string, arguments []byte) {
	for _, m := range s.of(tool) {
		value := arguments
		for _, name := range m.path {
			value = wire.Member(value, name)
		}
		if text, ok := primitive(value); ok {
			h.Set("Mcp-Param-"+m.header, headerValue(text))
		}
	}
}

// primitive returns a string, a boolean or an integer as text.
func primitive(value []byte) (string, bool) {
	if len(value) == 0 {
		return "", false
	}
	switch c := value[0]; {
	case c == '"':
		return wire.String(value)
	case c == 't' || c == 'f':
		return string(value), true
	case c != '-' && (c < '0' || c > '9'):
		return "", false
	}
	f, err := strconv.ParseFloat(string(value), 64) // exact for all integers that are safe
	n := int64(f)
	return strconv.FormatInt(n, 10), err == nil && float64(n) == f && n >= -maxSafeInteger && n <= maxSafeInteger
}

// learn notes the annotations of the tools in a result of tools/list with these params. It returns the
// result without the tools with invalid annotations, and calls reject for them: "the client
// MUST exclude the invalid tool from the result of tools/list".
func (s *mirrors) learn(params, result json.RawMessage, reject func(tool string, why error)) json.RawMessage {
	var tools []json.RawMessage
	if json.Unmarshal(wire.Member(result, "tools"), &tools) != nil {
		return result
	}
	page := make(map[string][]mirror, len(tools))
	valid := slices.DeleteFunc(slices.Clone(tools), func(tool json.RawMessage) bool {
		name, _ := wire.String(wire.Member(tool, "name"))
		found, err := mirrorsOf(wire.Member(tool, "inputSchema"))
		if err != nil {
			reject(name, err)
			return true
		}
		page[name] = found
		return false
	})
	next, _ := wire.String(wire.Member(result, "nextCursor"))
	s.note(page, wire.Member(params, "cursor") == nil, next == "")
	if len(valid) == len(tools) {
		return result
	}
	return wire.SetMember(result, "tools", wire.Marshal(valid))
}

// mirrorsOf returns the arguments that a tool's input schema annotates, or what is
// wrong with an annotation.
func mirrorsOf(schema []byte) (found []mirror, err error) {
	if !strings.Contains(string(schema), annotation) {
		return nil, nil
	}
	decoded, err := wire.Decode(schema)
	if err != nil {
		return nil, err
	}
	taken := make(map[string]bool)
	err = annotations(decoded, []string{}, 0, func(path []string, schema map[string]any) error {
		name, ok := schema[annotation].(string)
		switch {
		case !ok || !httpguts.ValidHeaderFieldName(name):
			return fmt.Errorf("%s is no name of a header", wire.Marshal(schema[annotation]))
		case len(path) == 0:
			return fmt.Errorf("%q is at a place that no chain of properties leads to", name)
		case !isPrimitive(schema["type"]):
			return fmt.Errorf("%q is at a property whose type is none of string, integer and boolean", name)
		case taken[strings.ToLower(name)]:
			return fmt.Errorf("%q is there twice", name)
		}
		taken[strings.ToLower(name)] = true
		found = append(found, mirror{path, name})
		return nil
	})
	return found, err
}

// annotations calls f for each schema with an annotation in a value, with the path to it: nil
// if that is not properties alone.
func annotations(value any, path []string, depth int, f func(path []string, schema map[string]any) error) (err error) {
	if depth > maxSchemaDepth {
		return errors.New("its schema is nested too deep")
	}
	list, _ := value.([]any)
	for i := 0; i < len(list) && err == nil; i++ {
		err = annotations(list[i], nil, depth+1, f)
	}
	schema, _ := value.(map[string]any)
	for _, key := range slices.Sorted(maps.Keys(schema)) {
		switch properties, _ := schema[key].(map[string]any); {
		case err != nil:
		case key == annotation:
			err = f(path, schema)
		case key == "properties":
			for _, name := range slices.Sorted(maps.Keys(properties)) {
				var to []string
				if path != nil {
					to = append(slices.Clip(path), name)
				}
				if err == nil {
					err = annotations(properties[name], to, depth+1, f)
				}
			}
		case slices.Contains([]string{"const", "default", "enum", "examples"}, key): // data, not schemas
		default:
			err = annotations(schema[key], nil, depth+1, f)
		}
	}
	return err
}

// isPrimitive reports whether the type of a schema is one that a header can hold; it
// may allow null too.
func isPrimitive(kind any) bool {
	kinds, several := kind.([]any)
	if !several {
		kinds = []any{kind}
	}
	kinds = slices.DeleteFunc(kinds, func(k any) bool { return k == "null" })
	return len(kinds) == 1 && slices.Contains([]any{"string", "integer", "boolean"}, kinds[0])
}

// relist lists the server's tools again, so that their annotations are known.
func relist(ctx context.Context, c *peer.Conn) {
	params := json.RawMessage("{}")
	for range maxPages {
		result, err := c.Request(ctx, session.Request{Method: "tools/list", Params: params})
		cursor := wire.Member(result, "nextCursor")
		if err != nil || cursor == nil || string(cursor) == "null" {
			return
		}
		params = wire.SetMember(json.RawMessage("{}"), "cursor", cursor)
	}
}

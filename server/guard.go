package server

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/session"
)

// What follows makes a result one that a legacy client accepts. Their schemas are
// strict: the TypeScript SDK rejects a whole result for one content block of a
// type that it does not know. Whatever need not be changed keeps its bytes; what
// was changed is said in _meta.

// guard returns the result of the request without what only the modern era knows,
// and with what breaks clients mended.
func (r *request) guard(result json.RawMessage) json.RawMessage {
	for _, member := range []string{"resultType", "ttlMs", "cacheScope"} {
		if bytes.Contains(result, []byte(member)) {
			result = wire.DeleteMember(result, member)
		}
	}
	m := mender{version: cmp.Or(r.revision(), session.LatestLegacy)}
	switch r.method {
	case "tools/call":
		result = m.callResult(result)
	case "prompts/get":
		result = m.each(result, "messages", m.message)
	case "resources/read":
		result = m.each(result, "contents", m.contents)
	}
	if len(m.notes) == 0 {
		return result
	}
	notes := strings.Join(m.notes, "; ")
	if before, ok := wire.String(wire.Member(wire.Member(result, "_meta"), "repaired")); ok {
		notes = before + "; " + notes
	}
	return withMeta(result, "repaired", wire.AppendString(nil, notes))
}

func (c *conversation) revision() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.version
}

// A mender mends a result for clients of one revision.
type mender struct {
	version string
	notes   []string // what was changed
}

func (m *mender) note(format string, args ...any) {
	const most = 10
	switch {
	case len(m.notes) < most:
		m.notes = append(m.notes, fmt.Sprintf(format, args...))
	case len(m.notes) == most:
		m.notes = append(m.notes, "and more")
	}
}

// callResult mends the result of a tool.
func (m *mender) callResult(result json.RawMessage) json.RawMessage {
	var content, structured []byte
	if wire.Members(result, func(key string, value []byte) bool {
		switch key {
		case "content":
			content = value
		case "structuredContent":
			structured = value
		}
		return true
	}) != nil {
		return result
	}
	if len(content) == 0 || content[0] != '[' {
		m.note("content: made an array")
		result, content = wire.SetMember(result, "content", []byte("[]")), []byte("[]")
	}
	result = m.eachOf(result, "content", content, m.block)
	if structured == nil || wire.IsObject(structured) {
		return result
	}
	m.note("structuredContent: moved to content, since it must be an object")
	result = wire.DeleteMember(result, "structuredContent")
	return wire.SetMember(result, "content", appendElement(wire.Member(result, "content"), asText(structured)))
}

// each mends the elements of an array in the result.
func (m *mender) each(result json.RawMessage, member string, mend func(where string, element json.RawMessage) json.RawMessage) json.RawMessage {
	return m.eachOf(result, member, wire.Member(result, member), mend)
}

// eachOf is each where the array is known.
func (m *mender) eachOf(result json.RawMessage, member string, array json.RawMessage, mend func(where string, element json.RawMessage) json.RawMessage) json.RawMessage {
	var mended []json.RawMessage
	changed := false
	wire.Elements(array, func(element []byte) bool {
		next := mend(fmt.Sprintf("%s[%d]", member, len(mended)), element)
		changed = changed || !unmended(next, element)
		mended = append(mended, next)
		return true
	})
	if !changed {
		return result
	}
	return wire.SetMember(result, member, slices.Concat([]byte("["), bytes.Join(raw(mended), []byte(",")), []byte("]")))
}

// kinds are the types of content blocks, the revision from which on clients know
// them, and the strings that they must have.
var kinds = map[string]struct {
	since   string
	strings []string
}{
	"text":          {session.Oldest, []string{"text"}},
	"image":         {session.Oldest, []string{"data", "mimeType"}},
	"audio":         {"2025-03-26", []string{"data", "mimeType"}},
	"resource":      {session.Oldest, nil},
	"resource_link": {"2025-06-18", []string{"uri", "name"}},
}

// block mends a content block.
func (m *mender) block(where string, block json.RawMessage) json.RawMessage {
	kind, has := "", make([]string, 0, 4)
	wire.Members(block, func(key string, value []byte) bool {
		if key == "type" {
			kind, _ = wire.String(value)
		} else if value[0] == '"' {
			has = append(has, key)
		}
		return true
	})
	known, ok := kinds[kind]
	switch {
	case !ok:
		m.note("%s: made text, since clients do not know the type %q", where, kind)
		return asText(block)
	case m.version < known.since:
		m.note("%s: made text, since clients of %s do not know the type %s", where, m.version, kind)
		return asText(block)
	case kind == "resource":
		resource := wire.Member(block, "resource")
		if mended := m.contents(where+".resource", resource); !unmended(mended, resource) {
			return wire.SetMember(block, "resource", mended)
		}
		return block
	}
	for _, name := range known.strings {
		if !slices.Contains(has, name) {
			m.note("%s: made text, since it lacks the string %s", where, name)
			return asText(block)
		}
	}
	return block
}

// message mends a message of a prompt, whose content is one block.
func (m *mender) message(where string, message json.RawMessage) json.RawMessage {
	content := wire.Member(message, "content")
	if !wire.IsObject(content) {
		return message
	}
	if mended := m.block(where+".content", content); !unmended(mended, content) {
		return wire.SetMember(message, "content", mended)
	}
	return message
}

// contents mends the contents of a resource, which must be text or a blob.
func (m *mender) contents(where string, contents json.RawMessage) json.RawMessage {
	filled := false
	if wire.Members(contents, func(key string, _ []byte) bool {
		filled = filled || key == "text" || key == "blob"
		return !filled
	}) != nil || filled {
		return contents
	}
	m.note("%s: added an empty text, since it has neither text nor blob", where)
	return wire.SetMember(contents, "text", []byte(`""`))
}

// unmended reports whether nothing was mended.
func unmended(mended, before []byte) bool {
	return len(mended) == len(before) && (len(mended) == 0 || &mended[0] == &before[0])
}

// asText returns a text block that holds the JSON.
func asText(value json.RawMessage) json.RawMessage {
	return append(wire.AppendString([]byte(`{"type":"text","text":`), string(value)), '}')
}

func appendElement(array, element []byte) []byte {
	end := bytes.LastIndexByte(array, ']')
	out := slices.Clone(array[:end])
	if len(bytes.TrimSpace(out)) > 1 {
		out = append(out, ',')
	}
	return append(append(out, element...), ']')
}

func raw(values []json.RawMessage) [][]byte {
	all := make([][]byte, len(values))
	for i, v := range values {
		all[i] = v
	}
	return all
}

// Package legacy adapts results to clients of the legacy era. Their schemas are
// strict: the TypeScript SDK rejects a whole result for one content block of a
// type that it does not know. A part that need not change keeps its bytes; the member
// "repaired" of _meta says which parts have changed.
package legacy

import (
	"bytes"
	"encoding/json"
	"slices"

	"github.com/mcp-metarouter/metarouter/internal/content"
	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/wire"
)

// Adapt returns the result of a method for a client of the legacy revision:
// without the members that only the modern era knows, and with the parts that clients of the
// revision reject replaced. An empty revision is the latest.
func Adapt(method, revision string, result json.RawMessage) json.RawMessage {
	for _, member := range []string{"resultType", "ttlMs", "cacheScope"} {
		if bytes.Contains(result, []byte(member)) {
			result = wire.DeleteMember(result, member)
		}
	}
	a := adapter{revision: revision}
	if revision == "" {
		a.revision = session.LatestLegacy
	}
	switch method {
	case "tools/call":
		result = a.callResult(result)
	case "prompts/get":
		result = a.Each(result, "messages", wire.Member(result, "messages"), a.message)
	case "resources/read":
		result = a.Each(result, "contents", wire.Member(result, "contents"), a.contents)
	}
	notes := a.Notes()
	if notes == "" {
		return result
	}
	meta := wire.Member(result, "_meta")
	if before, ok := wire.String(wire.Member(meta, "repaired")); ok {
		notes = before + "; " + notes
	}
	if !wire.IsObject(meta) {
		meta = []byte("{}")
	}
	return wire.SetMember(result, "_meta", wire.SetMember(meta, "repaired", wire.AppendString(nil, notes)))
}

// An adapter adapts one result to clients of one revision.
type adapter struct {
	revision string
	content.Repairs
}

// callResult adapts the result of a tool.
func (a *adapter) callResult(result json.RawMessage) json.RawMessage {
	var blocks, structured []byte
	if wire.Members(result, func(key string, value []byte) bool {
		switch key {
		case "content":
			blocks = value
		case "structuredContent":
			structured = value
		}
		return true
	}) != nil {
		return result
	}
	result = a.Each(result, "content", blocks, a.block)
	if structured == nil || wire.IsObject(structured) {
		return result
	}
	a.Note("structuredContent: moved to content, since it must be an object")
	result = wire.DeleteMember(result, "structuredContent")
	shown, text := wire.Member(result, "content"), asText(structured)
	switch {
	case bytes.Contains(shown, text): // as package content added it
		return result
	case !wire.IsArray(shown):
		shown = []byte("[]")
	}
	return wire.SetMember(result, "content", appendElement(shown, text))
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

// block adapts a content block.
func (a *adapter) block(at string, block []byte) []byte {
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
		a.Note("%s: made text, since clients do not know the type %q", at, kind)
		return asText(block)
	case a.revision < known.since:
		a.Note("%s: made text, since clients of %s do not know the type %s", at, a.revision, kind)
		return asText(block)
	case kind == "resource":
		return a.Inside(at, block, "resource", a.contents)
	}
	for _, name := range known.strings {
		if !slices.Contains(has, name) {
			a.Note("%s: made text, since it lacks the string %s", at, name)
			return asText(block)
		}
	}
	return block
}

// message adapts a message of a prompt, which has one block as its content.
func (a *adapter) message(at string, message []byte) []byte {
	return a.Inside(at, message, "content", a.block)
}

// contents adapts the contents of a resource, which must be text or a blob.
func (a *adapter) contents(at string, contents []byte) []byte {
	filled := false
	if wire.Members(contents, func(key string, _ []byte) bool {
		filled = filled || key == "text" || key == "blob"
		return !filled
	}) != nil || filled {
		return contents
	}
	a.Note("%s: added an empty text, since it has neither text nor blob", at)
	return wire.SetMember(contents, "text", []byte(`""`))
}

// asText returns a text block that holds the JSON.
func asText(value []byte) []byte { return content.TextBlock(string(value)) }

func appendElement(array, element []byte) []byte {
	end := bytes.LastIndexByte(array, ']')
	out := slices.Clone(array[:end])
	if len(bytes.TrimSpace(out)) > 1 {
		out = append(out, ',')
	}
	return append(append(out, element...), ']')
}

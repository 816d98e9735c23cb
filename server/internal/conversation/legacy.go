package conversation

import (
	"bytes"
	"encoding/json"
	"slices"

	"github.com/mcp-metarouter/metarouter/internal/content"
	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/wire"
)

// adapt returns the result of a method for a client of the revision: with the parts that clients of the
// revision reject replaced, and in the legacy era without the members that only the modern era knows. An empty revision
// is the latest of the legacy era.
func adapt(method, revision string, result json.RawMessage) json.RawMessage {
	for _, member := range []string{"resultType", "ttlMs", "cacheScope"} {
		if revision < session.Modern && bytes.Contains(result, []byte(member)) {
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
		result = a.Each(result, "messages", wire.Member(result, "messages"), func(at string, message []byte) []byte {
			return a.Inside(at, message, "content", a.block)
		})
	}
	notes := a.Notes()
	if notes == "" {
		return result
	}
	if before, ok := wire.String(wire.Member(wire.Member(result, "_meta"), "repaired")); ok {
		notes = before + "; " + notes
	}
	return wire.SetMeta(result, "repaired", wire.AppendString(nil, notes))
}

// An adapter adapts one result to clients of one revision.
type adapter struct {
	revision string
	content.Repairs
}

// callResult adapts the result of a tool.
func (a *adapter) callResult(result json.RawMessage) json.RawMessage {
	var found [2][]byte
	if wire.Pick(result, found[:], "content", "structuredContent") != nil {
		return result
	}
	structured := found[1]
	result = a.Each(result, "content", found[0], a.block)
	if structured == nil || wire.IsObject(structured) || a.revision >= session.Modern {
		return result
	}
	a.Note("structuredContent: moved to content, since it must be an object")
	result = wire.DeleteMember(result, "structuredContent")
	shown, text := wire.Member(result, "content"), asText(structured)
	if bytes.Contains(shown, text) { // as package content added it
		return result
	}
	all := bytes.Join(append(slices.Collect(wire.Values(shown)), text), []byte(","))
	return wire.SetMember(result, "content", slices.Concat([]byte("["), all, []byte("]")))
}

// since has the types of content blocks, and the revision from which on clients know them.
var since = map[string]string{
	"text": session.Oldest, "image": session.Oldest, "audio": "2025-03-26", "resource": session.Oldest, "resource_link": "2025-06-18",
}

// block adapts a content block.
func (a *adapter) block(at string, block []byte) []byte {
	kind, _ := wire.String(wire.Member(block, "type"))
	first, ok := since[kind]
	switch {
	case !ok:
		a.Note("%s: made text, since clients do not know the type %q", at, kind)
		return asText(block)
	case a.revision < first:
		a.Note("%s: made text, since clients of %s do not know the type %s", at, a.revision, kind)
		return asText(block)
	}
	return block
}

// asText returns a text block that holds the JSON.
func asText(value []byte) []byte { return content.TextBlock(string(value)) }

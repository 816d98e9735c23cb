// Package content repairs the content of results that servers send: parts that a client would not show,
// and pictures and sounds that a model's API would refuse, since then every later turn of the
// conversation fails too. A part that needs no repair keeps its bytes.
package content

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/mcp-metarouter/metarouter/internal/wire"
)

// TokenBytes is how many bytes of JSON or text count as a token.
const TokenBytes = 4

// Fits reports whether the result of a tool with this content and structuredContent, each nil if
// it is absent, needs no repair. media is the result of [wire.PickMedia]. If Fits
// reports false, [Repair] must judge.
func Fits(content, structured []byte, media bool) bool {
	if media || !wire.IsArray(content) {
		return false
	}
	if isEmpty(content) {
		return isAbsent(structured)
	}
	return !mayHaveOdd(content) && areBlocks(content)
}

func isAbsent(value []byte) bool { return value == nil || string(value) == "null" }

// Repair returns the result of a method, an object, with its content repaired, and the repairs that were
// done; "" if nothing was.
func Repair(method string, result []byte) (repaired []byte, what string) {
	var r repairer
	switch method {
	case "tools/call", "tasks/result":
		result = r.call(result)
	case "tasks/get":
		return r.Inside("", result, "result", func(_ string, result []byte) []byte { return r.call(result) }), r.Notes()
	case "prompts/get", "resources/read":
		if IsPending(result) {
			break
		}
		member, repair := "messages", r.message
		if method == "resources/read" {
			member, repair = "contents", r.resource
		}
		result, list := r.list(r.members("the result", result, optional), member)
		return r.Each(result, member, list, repair), r.Notes()
	case "completion/complete":
		return r.completion(result), r.Notes()
	}
	return result, r.Notes()
}

// A repairer repairs one result.
type repairer struct{ Repairs }

// Repairs notes the repairs of one result. The zero value has none.
type Repairs struct {
	notes []string
	n     int
}

// Notes returns the first repairs, with "; " between them; "" if nothing was repaired.
func (r *Repairs) Notes() string { return strings.Join(r.notes, "; ") }

// maxNotes bounds the notes on one result.
const maxNotes = 10

// Note notes a repair.
func (r *Repairs) Note(format string, args ...any) {
	r.n++
	switch {
	case r.n <= maxNotes:
		r.notes = append(r.notes, fmt.Sprintf(format, args...))
	case r.n == maxNotes+1:
		r.notes = append(r.notes, "and more")
	}
}

// IsPending reports whether a result of the modern era is not complete: a question to the client, or a task that will have
// the result.
func IsPending(result []byte) bool {
	kind := wire.Member(result, "resultType")
	return kind != nil && string(kind) != `"complete"`
}

// call repairs the result of a tool, unless it is no answer yet: a task of a modern server, or a question.
func (r *repairer) call(result []byte) []byte {
	var found [3][]byte
	media, err := wire.PickMedia(result, found[:], "content", "structuredContent", "resultType")
	content, structured, kind := found[0], found[1], found[2]
	if err != nil || kind != nil && string(kind) != `"complete"` && isAbsent(content) {
		return result
	}
	if result = r.flag(result); Fits(content, structured, media) {
		return result
	}
	isOwn := func(key string) bool {
		return !slices.Contains([]string{"content", "structuredContent", "resultType", "isError", "_meta"}, key)
	}
	before := r.n
	switch empty := isEmpty(content); {
	case wire.IsArray(content) && !empty:
	case empty && !isAbsent(structured):
		r.Note("content: added the JSON of structuredContent")
		content = array(TextBlock(string(structured)))
	case isAbsent(content) && (content == nil || slices.ContainsFunc(wire.Keys(result), isOwn)):
		r.Note("content: added the JSON of the result, which had none")
		content = array(TextBlock(string(result)))
	case isBlock(content):
		r.Note("content: made an array")
		content = array(content)
	default:
		r.Note("content: made an array of text")
		content = array(TextBlock(textOf(content)))
	}
	if r.n > before {
		result = wire.SetMember(result, "content", content)
	}
	return r.Each(result, "content", content, r.block)
}

// isEmpty reports whether content has nothing to show.
func isEmpty(content []byte) bool {
	if !wire.IsArray(content) {
		return isAbsent(content)
	}
	inside := bytes.TrimLeft(content[1:], " \t\r\n")
	return inside[0] == ']'
}

func isBlock(value []byte) bool {
	return slices.Contains([]string{"text", "image", "audio", "resource", "resource_link"}, wire.Text(value, "type"))
}

func array(element []byte) []byte { return slices.Concat([]byte("["), element, []byte("]")) }

// TextBlock returns a content block with the text.
func TextBlock(text string) []byte {
	return append(wire.AppendString([]byte(`{"type":"text","text":`), text), '}')
}

// textOf returns a string as it is, and any other value as JSON.
func textOf(value []byte) string {
	if text, ok := wire.String(value); ok {
		return text
	}
	return string(value)
}

// Each repairs the elements of an array, which is a member of the result. at is the place of an
// element, such as "content[0]".
func (r *Repairs) Each(result []byte, member string, elements []byte, repair func(at string, element []byte) []byte) []byte {
	var repaired [][]byte
	before := r.n
	for element := range wire.Values(elements) {
		repaired = append(repaired, repair(member+"["+strconv.Itoa(len(repaired))+"]", element))
	}
	if r.n == before {
		return result
	}
	return wire.SetMember(result, member, array(bytes.Join(repaired, []byte(","))))
}

// block repairs a content block.
func (r *repairer) block(at string, block []byte) []byte {
	if !wire.IsObject(block) {
		r.Note("%s: made text", at)
		return TextBlock(textOf(block))
	}
	block = r.both(at, block)
	kind, lacks := lacking(block)
	switch {
	case kind == "image" || kind == "audio":
		return r.media(at, kind, block)
	case lacks != "":
		r.Note("%s: made text, since it lacks the %s", at, lacks)
		return TextBlock(string(block))
	case kind == "resource":
		return r.Inside(at, block, "resource", r.resource)
	}
	return block
}

// needed are the strings that blocks of a type must have.
var needed = map[string][]string{"text": {"text"}, "resource_link": {"uri", "name"}}

// lacking returns the type of a block, and what it lacks, though clients refuse it without; "" if it lacks nothing.
func lacking(block []byte) (kind, what string) {
	kind, ok := wire.String(wire.Member(block, "type"))
	if !ok {
		return "", "type"
	}
	for _, member := range needed[kind] {
		if v := wire.Member(block, member); v == nil || !isString(v) {
			return kind, "string " + member
		}
	}
	if kind == "resource" && !wire.IsObject(wire.Member(block, "resource")) {
		return kind, "resource"
	}
	return kind, ""
}

// areBlocks reports whether all elements of an array are blocks that lack nothing.
func areBlocks(content []byte) bool {
	return areAll(content, func(block []byte) bool { _, lacks := lacking(block); return lacks == "" })
}

const maxValues = 100 // "Must not exceed 100 items" (2025-11-25, CompleteResult): SDKs refuse more

// completion repairs the values that complete an argument.
func (r *repairer) completion(result []byte) []byte {
	result = r.members("the result", result, optional)
	if c := wire.Member(result, "completion"); !wire.IsObject(c) {
		r.Note("completion: made an object")
		if !wire.IsArray(c) {
			c = []byte("[]")
		}
		result = wire.SetMember(result, "completion", slices.Concat([]byte(`{"values":`), c, []byte("}")))
	}
	return r.Inside("the result", result, "completion", func(at string, c []byte) []byte {
		c, values := r.list(r.members(at, c, ofCompletion), "values")
		if all := slices.Collect(wire.Values(values)); len(all) > maxValues {
			r.Note("%s.values: only the first %d of %d are passed on", at, maxValues, len(all))
			values = array(bytes.Join(all[:maxValues], []byte(",")))
			c = wire.SetMember(wire.SetMember(c, "values", values), "hasMore", []byte("true"))
		}
		return r.Each(c, "values", values, func(at string, v []byte) []byte {
			if isString(v) {
				return v
			}
			r.Note("%s: made a string", at)
			return wire.AppendString(nil, string(v))
		})
	})
}

// message repairs a message of a prompt; its content is one block.
func (r *repairer) message(at string, message []byte) []byte {
	if !wire.IsObject(message) {
		r.Note("%s: made a message of text", at)
		return slices.Concat([]byte(`{"role":"user","content":`), TextBlock(textOf(message)), []byte("}"))
	}
	if !isRole(wire.Member(message, "role")) {
		r.Note("%s.role: made user", at)
		message = wire.SetMember(message, "role", []byte(`"user"`))
	}
	if content := wire.Member(message, "content"); !wire.IsObject(content) {
		r.Note("%s.content: made a block", at)
		message = wire.SetMember(message, "content", oneBlock(content))
	}
	return r.Inside(at, message, "content", r.block)
}

// oneBlock returns the one block of an array, and a text block with all else.
func oneBlock(content []byte) []byte {
	var blocks [][]byte
	var texts []string
	for block := range wire.Values(content) {
		text, ok := wire.String(wire.Member(block, "text"))
		if !ok {
			text = textOf(block)
		}
		blocks, texts = append(blocks, block), append(texts, text)
	}
	switch {
	case len(blocks) == 1 && wire.IsObject(blocks[0]):
		return blocks[0]
	case wire.IsArray(content):
		return TextBlock(strings.Join(texts, "\n"))
	case isAbsent(content):
		return TextBlock("")
	}
	return TextBlock(textOf(content))
}

// Inside repairs a member of an object that is an object itself. at is the place of the outer one.
func (r *Repairs) Inside(at string, object []byte, member string, repair func(at string, value []byte) []byte) []byte {
	value := wire.Member(object, member)
	if !wire.IsObject(value) {
		return object
	}
	before := r.n
	if value = repair(at+"."+member, value); r.n == before {
		return object
	}
	return wire.SetMember(object, member, value)
}

// media repairs a block that holds a picture or a sound.
func (r *repairer) media(at, kind string, block []byte) []byte {
	data := wire.Member(block, "data")
	if len(data) == 0 || data[0] != '"' {
		r.Note("%s: made text, since it has no data", at)
		return TextBlock(string(block))
	}
	m := examine(kind, wire.Text(block, "mimeType"), data)
	if m.what == "" {
		return block
	}
	r.Note("%s: %s", at, m.what)
	if m.kind == "text" {
		block = wire.DeleteMember(wire.DeleteMember(block, "data"), "mimeType")
		block = wire.SetMember(block, "text", wire.AppendString(nil, m.text))
	} else {
		block = m.into(block, "data")
	}
	return wire.SetMember(block, "type", wire.AppendString(nil, m.kind))
}

// noURI stands for the URI of contents without one. Clients refuse "".
const noURI = "about:blank"

// blob makes the blob of contents plain base64, or text.
func (r *repairer) blob(at string, contents, blob []byte) []byte {
	text, _ := wire.String(blob)
	if isBase64([]byte(text)) {
		return contents
	}
	r.Note("%s.blob: made plain base64, or text", at)
	if data, ok := decode([]byte(text)); ok {
		return wire.SetMember(contents, "blob", wire.AppendString(nil, base64.StdEncoding.EncodeToString(data)))
	}
	if words, ok := wire.String(wire.Member(contents, "text")); ok {
		text = words + "\n" + text
	}
	return wire.SetMember(wire.DeleteMember(contents, "blob"), "text", wire.AppendString(nil, text))
}

// resource repairs the contents of a resource.
func (r *repairer) resource(at string, contents []byte) []byte {
	if !wire.IsObject(contents) {
		r.Note("%s: made the text of a resource", at)
		return slices.Concat([]byte(`{"uri":"`+noURI+`","text":`), wire.AppendString(nil, textOf(contents)), []byte("}"))
	}
	contents = r.members(at, contents, optional)
	for _, member := range []string{"uri", "text", "blob"} {
		contents = r.words(at, contents, member)
	}
	blob := wire.Member(contents, "blob")
	if wire.Member(contents, "uri") == nil {
		r.Note("%s: added a uri", at)
		contents = wire.SetMember(contents, "uri", []byte(`"`+noURI+`"`))
	}
	if blob == nil {
		if wire.Member(contents, "text") == nil {
			r.Note("%s: added an empty text, since it has neither text nor blob", at)
			contents = wire.SetMember(contents, "text", []byte(`""`))
		}
		return contents
	}
	declared := wire.Text(contents, "mimeType")
	kind, _, _ := strings.Cut(declared, "/")
	if kind != "image" && kind != "audio" {
		return r.blob(at, contents, blob)
	}
	m := examine(kind, declared, blob)
	if m.what == "" {
		return contents
	}
	r.Note("%s: %s", at, m.what)
	if m.kind != "text" {
		return m.into(contents, "blob")
	}
	contents = wire.SetMember(wire.DeleteMember(contents, "blob"), "text", wire.AppendString(nil, m.text))
	return wire.SetMember(contents, "mimeType", wire.AppendString(nil, m.mime))
}

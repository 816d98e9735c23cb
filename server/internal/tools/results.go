package tools

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/mcp-metarouter/metarouter/internal/content"
	"github.com/mcp-metarouter/metarouter/internal/wire"
)

// If a server has a limit for results, a client gets the beginning of a long text, and
// the rest on request. Only that client can read the kept text.

const (
	// ResultScheme begins the URIs of texts that are kept.
	ResultScheme = "metarouter-result:"

	// maxKeptTime is how long the text of a result is kept, maxKeptBytes and
	// maxAllKeptBytes how many bytes of one client's and of all clients' texts, also
	// texts of the router's other servers. Each text counts for keptOverhead bytes more.
	maxKeptTime     = 30 * time.Minute
	maxKeptBytes    = 16 << 20
	maxAllKeptBytes = 128 << 20
	keptOverhead    = 512
)

// Kept bounds the texts that are kept for the clients of all servers of a router.
type Kept struct {
	mu      sync.Mutex        // guards the fields below, and the texts of the servers
	servers map[*results]bool // those with texts
	size    int               // of all texts
}

// NewKept returns a Kept without texts.
func NewKept() *Kept { return &Kept{servers: make(map[*results]bool)} }

// results are the texts that are kept for the clients of one server, since they were longer than the limit.
type results struct {
	kept   *Kept
	exists func(tool string) bool // reports whether the clients may still use the tool
	links  links

	// Guarded by mu of Kept.
	texts []*keptText // the oldest first
	size  int
	owned map[any]int // bytes of the texts of each client
}

type keptText struct {
	uri   string
	owner any    // the client; see Owner of [conversation.Request]
	tool  string // the ID of the tool that gave it
	text  string
	timer *time.Timer // forgets it
}

func (k *keptText) size() int { return len(k.text) + keptOverhead }

// keep keeps the text and returns its URI, "" if the text is too long to be kept. It drops the oldest texts of the client that
// it leaves no room for, and then texts of the largest client of the largest server.
func (r *results) keep(client any, tool, text string) string {
	k := &keptText{uri: ResultScheme + rand.Text(), owner: client, tool: tool, text: text}
	if k.size() > maxKeptBytes {
		return ""
	}
	r.kept.mu.Lock()
	defer r.kept.mu.Unlock()
	for r.owned[client]+k.size() > maxKeptBytes {
		r.dropOldest(client)
	}
	if r.owned == nil {
		r.owned = make(map[any]int)
	}
	r.texts = append(r.texts, k)
	r.count(k, k.size())
	k.timer = time.AfterFunc(maxKeptTime, func() { r.forget(func(other *keptText) bool { return other == k }) })
	for r.kept.size > maxAllKeptBytes {
		server, client := r.largest(k)
		server.dropOldest(client)
	}
	return k.uri
}

// largest returns the client with the most bytes of the server with the most, but not one that has r's newest text alone.
// kept.mu must be held.
func (r *results) largest(newest *keptText) (server *results, client any) {
	server = new(results)
	for other := range r.kept.servers {
		if other.size > server.size && other.texts[0] != newest {
			server = other
		}
	}
	most := 0
	for other, bytes := range server.owned {
		if bytes > most && (server != r || other != newest.owner || bytes > newest.size()) {
			client, most = other, bytes
		}
	}
	return server, client
}

// count adds the bytes of a text, or subtracts them. kept.mu must be held.
func (r *results) count(k *keptText, bytes int) {
	r.size += bytes
	r.kept.size += bytes
	if r.owned[k.owner] += bytes; r.owned[k.owner] == 0 {
		delete(r.owned, k.owner)
	}
	if r.kept.servers[r] = true; r.size == 0 {
		delete(r.kept.servers, r)
	}
}

// dropOldest forgets the oldest text of a client. kept.mu must be held.
func (r *results) dropOldest(client any) {
	r.drop(slices.IndexFunc(r.texts, func(k *keptText) bool { return k.owner == client }))
}

// drop forgets the text of an index. kept.mu must be held.
func (r *results) drop(i int) {
	k := r.texts[i]
	k.timer.Stop()
	r.texts = slices.Delete(r.texts, i, i+1)
	r.count(k, -k.size())
}

// forget drops some texts.
func (r *results) forget(some func(*keptText) bool) {
	r.kept.mu.Lock()
	defer r.kept.mu.Unlock()
	for i, k := range slices.Backward(r.texts) {
		if some(k) {
			r.drop(i)
		}
	}
}

// find returns a text that the client may read: the tool that gave it must still exist for it.
func (r *results) find(client any, uri string) (text string, ok bool) {
	var found *keptText
	r.kept.mu.Lock()
	if i := slices.IndexFunc(r.texts, func(k *keptText) bool { return k.uri == uri && k.owner == client }); i >= 0 {
		found = r.texts[i]
	}
	r.kept.mu.Unlock()
	if found == nil || !r.exists(found.tool) {
		return "", false
	}
	return found.text, true
}

// A Truncation is the member of _meta about a result with a text that was cut.
type Truncation struct {
	Bytes int    `json:"bytes"` // of the whole text
	Shown int    `json:"shown"` // bytes that the client got
	URI   string `json:"uri,omitempty"`
}

// limited returns the result with at most so many tokens of text, and a link to the
// whole text. Only text counts, and only text is cut.
func (r *runner) limited(result json.RawMessage, tokens int, tool string, owner any) json.RawMessage {
	limit := tokens * content.TokenBytes
	if tokens == 0 || len(result) <= limit {
		return result
	}
	var texts []string
	var others []json.RawMessage
	for item := range wire.Values(wire.Member(result, "content")) {
		if kind, _ := wire.String(wire.Member(item, "type")); kind == "text" {
			text, _ := wire.String(wire.Member(item, "text"))
			texts = append(texts, text)
		} else {
			others = append(others, item)
		}
	}
	text := strings.ToValidUTF8(strings.Join(texts, "\n"), string(utf8.RuneError))
	if len(text) <= limit {
		return result
	}
	shown := piece(text, 0, limit)
	if spared := (len(text) - len(shown)) / content.TokenBytes; r.Savings != nil && spared > 0 {
		r.Savings.ResultSpared(spared)
	}
	uri := r.results.keep(owner, tool, text)
	note := fmt.Sprintf("[the first %d of %d bytes; the rest is too long to be kept]", len(shown), len(text))
	if uri != "" {
		note = fmt.Sprintf("[the first %d of %d bytes; read_result {\"uri\": %q, \"offset\": %d} goes on]", len(shown), len(text), uri, len(shown))
	}
	items := []any{textContent{"text", shown}, textContent{"text", note}}
	for _, item := range others {
		items = append(items, item)
	}
	if uri != "" {
		items = append(items, map[string]any{
			"type": "resource_link", "uri": uri, "name": "the whole result", "mimeType": "text/plain", "size": len(text),
		})
	}
	result = wire.SetMember(result, "content", wire.Marshal(items))
	return wire.SetMeta(result, "truncated", wire.Marshal(Truncation{len(text), len(shown), uri}))
}

// piece returns up to limit bytes of the text from the offset on, in whole
// characters.
func piece(text string, offset, limit int) string {
	for offset < len(text) && !utf8.RuneStart(text[offset]) {
		offset++
	}
	end := min(len(text), offset+max(limit, utf8.UTFMax))
	for end < len(text) && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[offset:end]
}

// readArguments are the arguments of read_result.
type readArguments struct {
	URI    string `json:"uri"`
	Offset int    `json:"offset"`
	Limit  int    `json:"limit"`
}

const (
	defaultPiece = 8000      // bytes
	maxPiece     = 1_000_000 // as the tool's schema says
)

// read answers read_result.
func (r *results) read(_ context.Context, a readArguments, c *toolCall) (json.RawMessage, error) {
	text, ok := r.find(c.Owner(), a.URI)
	switch {
	case !ok:
		return failure("read_result: no result is kept under %q: they are kept for %s, for the session that got them, and up to %d MiB; call the tool again",
			a.URI, maxKeptTime, maxKeptBytes>>20), nil
	case a.Offset < 0:
		return failure("read_result: the offset %d is before the beginning", a.Offset), nil
	case a.Offset > len(text):
		return failure("read_result: the offset %d is behind the end, %d", a.Offset, len(text)), nil
	}
	shown := piece(text, a.Offset, min(cmp.Or(a.Limit, defaultPiece), maxPiece))
	items := []textContent{{"text", shown}}
	begin := a.Offset
	for begin < len(text) && !utf8.RuneStart(text[begin]) {
		begin++
	}
	if end := begin + len(shown); end < len(text) {
		items = append(items, textContent{"text", fmt.Sprintf("[up to byte %d of %d]", end, len(text))})
	}
	return wire.Marshal(map[string]any{"content": items}), nil
}

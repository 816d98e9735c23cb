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

	"github.com/mcp-metarouter/metarouter/internal/tokencount"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/server/internal/conversation"
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

// results keeps texts that were longer than the limit.
type results struct {
	exists func(tool string) bool // reports whether the clients may still use the tool
	share  *conversation.Share
	links  links

	mu    sync.Mutex  // guards the fields below
	kept  []*keptText // the oldest first
	sizes map[any]int // of the texts of each owner that has any
}

// newResults returns a store for clients that may use the tools that exist.
func newResults(b *conversation.Budget, exists func(tool string) bool) *results {
	r := &results{exists: exists, sizes: make(map[any]int)}
	r.share = b.Share(r.dropOldest)
	return r
}

type keptText struct {
	uri   string
	owner any
	tool  string // the ID of the tool that gave it
	text  string
	timer *time.Timer
}

func (k *keptText) size() int { return len(k.text) + keptOverhead }

// keep keeps the text and returns its URI, "" if the text is too long to be kept.
func (r *results) keep(owner any, tool, text string) string {
	k := &keptText{uri: ResultScheme + rand.Text(), owner: owner, tool: tool, text: text}
	if k.size() > maxKeptBytes {
		return ""
	}
	r.put(k)
	r.share.Fit()
	return k.uri
}

// put takes in a text, and drops the oldest of the owner that it leaves no room for.
func (r *results) put(k *keptText) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.sizes[k.owner]+k.size() > maxKeptBytes {
		r.drop(slices.IndexFunc(r.kept, func(old *keptText) bool { return old.owner == k.owner }))
	}
	r.kept = append(r.kept, k)
	r.sizes[k.owner] += k.size()
	r.share.Add(k.size())
	k.timer = time.AfterFunc(maxKeptTime, func() { r.dropAll(func(other *keptText) bool { return other == k }) })
}

// drop forgets the text of an index. r.mu must be held.
func (r *results) drop(i int) {
	k := r.kept[i]
	k.timer.Stop()
	r.kept = slices.Delete(r.kept, i, i+1)
	r.share.Add(-k.size())
	if r.sizes[k.owner] -= k.size(); r.sizes[k.owner] == 0 {
		delete(r.sizes, k.owner)
	}
}

// dropOldest forgets the oldest text, if there is one.
func (r *results) dropOldest() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.kept) > 0 {
		r.drop(0)
	}
}

// dropAll forgets some texts.
func (r *results) dropAll(some func(*keptText) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := len(r.kept) - 1; i >= 0; i-- {
		if some(r.kept[i]) {
			r.drop(i)
		}
	}
}

// clear forgets all texts.
func (r *results) clear() { r.dropAll(func(*keptText) bool { return true }) }

// forget drops the texts of an owner that has left.
func (r *results) forget(owner any) {
	r.dropAll(func(k *keptText) bool { return k.owner == owner })
}

// find returns a text that the owner may read: the tool that gave it must still exist for the
// owner.
func (r *results) find(owner any, uri string) (text string, ok bool) {
	var found keptText
	r.mu.Lock()
	if i := slices.IndexFunc(r.kept, func(k *keptText) bool { return k.uri == uri && k.owner == owner }); i >= 0 {
		found = *r.kept[i]
	}
	r.mu.Unlock()
	if found.uri == "" || !r.exists(found.tool) {
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
	limit := tokens * tokencount.Bytes
	if tokens == 0 || len(result) <= limit {
		return result
	}
	var content json.RawMessage
	if wire.Members(result, func(key string, value []byte) bool {
		if key == "content" {
			content = value
		}
		return true
	}) != nil {
		return result
	}
	var texts []string
	var others []json.RawMessage
	wire.Elements(content, func(item []byte) bool {
		if kind, _ := wire.String(wire.Member(item, "type")); kind == "text" {
			text, _ := wire.String(wire.Member(item, "text"))
			texts = append(texts, text)
		} else {
			others = append(others, item)
		}
		return true
	})
	text := strings.ToValidUTF8(strings.Join(texts, "\n"), string(utf8.RuneError))
	if len(text) <= limit {
		return result
	}
	shown := piece(text, 0, limit)
	if spared := (len(text) - len(shown)) / tokencount.Bytes; r.Savings != nil && spared > 0 {
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
	return conversation.WithMeta(result, "truncated", wire.Marshal(Truncation{len(text), len(shown), uri}))
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

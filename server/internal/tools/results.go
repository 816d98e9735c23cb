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

// Kept are the texts that are kept for the clients of all servers of a router.
type Kept struct {
	mu    sync.Mutex   // guards the fields below
	texts []*keptText  // the oldest first
	owned map[user]int // bytes of the texts of each client
	size  int          // of all texts
}

// NewKept returns a Kept without texts.
func NewKept() *Kept { return &Kept{owned: make(map[user]int)} }

// results are the texts that are kept for the clients of one server, since they were longer than the limit.
type results struct {
	kept   *Kept
	exists func(tool string) bool // reports whether the clients may still use the tool
	links  links
}

// A user is a client of one server; see Owner of [conversation.Request].
type user struct {
	server *results
	client any
}

type keptText struct {
	uri   string
	owner user
	tool  string // the ID of the tool that gave it
	text  string
	timer *time.Timer // forgets it
}

func (k *keptText) size() int { return len(k.text) + keptOverhead }

// keep keeps the text and returns its URI, "" if the text is too long to be kept. It drops the oldest texts of the client that
// it leaves no room for, and then those of the clients that have most.
func (r *results) keep(client any, tool, text string) string {
	t := &keptText{uri: ResultScheme + rand.Text(), owner: user{r, client}, tool: tool, text: text}
	if t.size() > maxKeptBytes {
		return ""
	}
	k := r.kept
	k.mu.Lock()
	defer k.mu.Unlock()
	for k.owned[t.owner]+t.size() > maxKeptBytes {
		k.dropOldest(t.owner)
	}
	k.texts = append(k.texts, t)
	k.count(t.owner, t.size())
	t.timer = time.AfterFunc(maxKeptTime, func() { k.forget(func(other *keptText) bool { return other == t }) })
	for k.size > maxAllKeptBytes {
		k.dropOldest(k.largest(t))
	}
	return t.uri
}

// largest returns the client with the most bytes, but not one that has the newest text alone. mu must be held.
func (k *Kept) largest(newest *keptText) (largest user) {
	most := 0
	for owner, bytes := range k.owned {
		if bytes > most && (owner != newest.owner || bytes > newest.size()) {
			largest, most = owner, bytes
		}
	}
	return largest
}

// count adds the bytes of a text, or subtracts them. mu must be held.
func (k *Kept) count(owner user, bytes int) {
	k.size += bytes
	if k.owned[owner] += bytes; k.owned[owner] == 0 {
		delete(k.owned, owner)
	}
}

// dropOldest forgets the oldest text of a client. mu must be held.
func (k *Kept) dropOldest(owner user) {
	i := slices.IndexFunc(k.texts, func(t *keptText) bool { return t.owner == owner })
	k.dropped(k.texts[i])
	k.texts = slices.Delete(k.texts, i, i+1)
}

// dropped ends what there is of a text besides its place in the list. mu must be held.
func (k *Kept) dropped(t *keptText) {
	t.timer.Stop()
	k.count(t.owner, -t.size())
}

// forget drops some texts.
func (k *Kept) forget(some func(*keptText) bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.texts = slices.DeleteFunc(k.texts, func(t *keptText) bool {
		drop := some(t)
		if drop {
			k.dropped(t)
		}
		return drop
	})
}

// find returns a text that the client may read: the tool that gave it must still exist for it.
func (r *results) find(client any, uri string) (text string, ok bool) {
	var found *keptText
	r.kept.mu.Lock()
	if i := slices.IndexFunc(r.kept.texts, func(t *keptText) bool { return t.uri == uri && t.owner == user{r, client} }); i >= 0 {
		found = r.kept.texts[i]
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
	var others []any
	for item := range wire.Values(wire.Member(result, "content")) {
		if wire.Text(item, "type") == "text" {
			texts = append(texts, wire.Text(item, "text"))
		} else {
			others = append(others, json.RawMessage(item))
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
		others = append(others, map[string]any{
			"type": "resource_link", "uri": uri, "name": "the whole result", "mimeType": "text/plain", "size": len(text),
		})
	}
	items := append([]any{content.Block{Type: "text", Text: shown}, content.Block{Type: "text", Text: note}}, others...)
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
	URI    string  `json:"uri"`
	Offset float64 `json:"offset"` // a whole number, but 8000.0 is one too
	Limit  float64 `json:"limit"`
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
		return failure("read_result: the offset %.0f is before the beginning", a.Offset), nil
	case a.Offset > float64(len(text)):
		return failure("read_result: the offset %.0f is behind the end, %d", a.Offset, len(text)), nil
	}
	begin := int(a.Offset)
	shown := piece(text, begin, int(min(max(cmp.Or(a.Limit, defaultPiece), 1), maxPiece)))
	items := []content.Block{{Type: "text", Text: shown}}
	for begin < len(text) && !utf8.RuneStart(text[begin]) {
		begin++
	}
	if end := begin + len(shown); end < len(text) {
		items = append(items, content.Block{Type: "text", Text: fmt.Sprintf("[up to byte %d of %d]", end, len(text))})
	}
	return wire.Marshal(map[string]any{"content": items}), nil
}

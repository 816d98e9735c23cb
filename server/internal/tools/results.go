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

// A store keeps texts that were longer than the limit, for the clients of all servers of a router.
type store struct {
	mu      sync.Mutex // guards the fields below
	byOwner map[owner]*keptTexts
	size    int // of all texts
}

// An owner is a client of one server.
type owner struct {
	server *results
	client any // see Owner of [conversation.Request]
}

// keptTexts are those of one owner.
type keptTexts struct {
	texts []*keptText // the oldest first; never empty
	size  int
}

type keptText struct {
	uri  string
	tool string // the ID of the tool that gave it
	text string

	timer *time.Timer // forgets it
}

func (k *keptText) size() int { return len(k.text) + keptOverhead }

func newStore() *store { return &store{byOwner: make(map[owner]*keptTexts)} }

// put takes in a text. It drops the oldest texts of the owner that it leaves no room for, and then those of the largest owner of the
// largest server.
func (s *store) put(of owner, k *keptText) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for own := s.byOwner[of]; own != nil && own.size+k.size() > maxKeptBytes; {
		s.drop(of, 0)
	}
	own := s.byOwner[of]
	if own == nil {
		own = new(keptTexts)
		s.byOwner[of] = own
	}
	own.texts = append(own.texts, k)
	own.size += k.size()
	s.size += k.size()
	k.timer = time.AfterFunc(maxKeptTime, func() { s.expire(of, k) })
	for s.size > maxAllKeptBytes {
		s.drop(s.largest(k), 0)
	}
}

// largest returns the owner with the most bytes of the server with the most, but not one that has the newest text alone. s.mu must be held.
func (s *store) largest(newest *keptText) (of owner) {
	sizes := make(map[*results]int)
	for other, own := range s.byOwner {
		sizes[other.server] += own.size
	}
	most := new(keptTexts)
	for other, own := range s.byOwner {
		larger := cmp.Or(cmp.Compare(sizes[other.server], sizes[of.server]), cmp.Compare(own.size, most.size)) > 0
		if larger && own.texts[0] != newest {
			of, most = other, own
		}
	}
	return of
}

// drop forgets the text of an index. s.mu must be held.
func (s *store) drop(of owner, i int) {
	own := s.byOwner[of]
	k := own.texts[i]
	k.timer.Stop()
	own.size -= k.size()
	s.size -= k.size()
	if own.texts = slices.Delete(own.texts, i, i+1); len(own.texts) == 0 {
		delete(s.byOwner, of)
	}
}

// expire forgets a text, unless it is forgotten already.
func (s *store) expire(of owner, k *keptText) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if own := s.byOwner[of]; own != nil {
		if i := slices.Index(own.texts, k); i >= 0 {
			s.drop(of, i)
		}
	}
}

// forget drops the texts of some owners.
func (s *store) forget(some func(owner) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for of, own := range s.byOwner {
		for some(of) && len(own.texts) > 0 {
			s.drop(of, 0)
		}
	}
}

// results are the texts that are kept for the clients of one server.
type results struct {
	store  *store
	exists func(tool string) bool // reports whether the clients may still use the tool
	links  links
}

// keep keeps the text and returns its URI, "" if the text is too long to be kept.
func (r *results) keep(client any, tool, text string) string {
	k := &keptText{uri: ResultScheme + rand.Text(), tool: tool, text: text}
	if k.size() > maxKeptBytes {
		return ""
	}
	r.store.put(owner{r, client}, k)
	return k.uri
}

// clear forgets all texts.
func (r *results) clear() { r.store.forget(func(of owner) bool { return of.server == r }) }

// forget drops the texts of a client that has left.
func (r *results) forget(client any) {
	r.store.forget(func(of owner) bool { return of == owner{r, client} })
}

// find returns a text that the client may read: the tool that gave it must still exist for it.
func (r *results) find(client any, uri string) (text string, ok bool) {
	r.store.mu.Lock()
	var found *keptText
	if own := r.store.byOwner[owner{r, client}]; own != nil {
		if i := slices.IndexFunc(own.texts, func(k *keptText) bool { return k.uri == uri }); i >= 0 {
			found = own.texts[i]
		}
	}
	r.store.mu.Unlock()
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

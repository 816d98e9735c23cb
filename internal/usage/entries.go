package usage

import (
	"math"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/mcp-metarouter/metarouter/internal/secret"
)

// maxTyped bounds the kept text of a query as it was typed, in bytes.
const maxTyped = 200

// An Entry is the knowledge of a tool.
type Entry struct {
	Tool            string
	Calls, Failures int     // since the tool is remembered, failures being among the calls; of routers that share a file, the numbers of the one that saw most
	Queries         []Query // that it was used after, strongest first
}

// A Query is a query after which a tool was used.
type Query struct {
	Typed string    // as a client wrote it last, without secrets; "" if it is from an older file
	Words []string  // its stems
	Votes float64   // of all clients for the tool, as they count now, rounded; negative if it mostly failed, 0 while nothing is learned from it
	Last  time.Time // the last call
}

// Tools returns the knowledge of each tool, the strongest evidence
// first.
func (s *Store) Tools() []Entry {
	if s == nil {
		return nil
	}
	now := time.Now().UnixMilli()
	s.mu.RLock()
	lines := s.memory.lines()
	s.mu.RUnlock()
	lines = ranked(lines, now)
	entries := make([]Entry, len(lines))
	for i, l := range lines {
		entries[i] = Entry{Tool: l.Tool, Calls: l.Calls, Failures: l.Failures}
		for _, q := range l.Queries {
			entries[i].Queries = append(entries[i].Queries, Query{
				Typed: q.Typed, Words: slices.Clone(q.Words),
				Votes: math.Round(100*strength(q.Marks, now)) / 100, Last: time.UnixMilli(last(q.Marks)),
			})
		}
	}
	return entries
}

// shown returns the beginning of a query as it is kept: on one line, without secrets. The
// secrets are looked for first, because half of one does not look like one.
func shown(typed string) string {
	if len(typed) > 8*maxTyped {
		typed = typed[:8*maxTyped]
		if end := strings.LastIndexAny(typed, " \t\n"); end > 0 {
			typed = typed[:end] // a word that is cut may be half a secret
		} else {
			return ""
		}
	}
	typed = strings.Join(strings.Fields(secret.HideSpoken(strings.ToValidUTF8(typed, ""), "…")), " ")
	if len(typed) <= maxTyped {
		return strings.Clone(typed)
	}
	end := maxTyped - len("…")
	for !utf8.RuneStart(typed[end]) {
		end--
	}
	return typed[:end] + "…"
}

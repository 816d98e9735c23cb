package rank

import (
	"slices"

	"github.com/mcp-metarouter/metarouter/internal/index"
	"github.com/mcp-metarouter/metarouter/internal/verbs"
	"github.com/mcp-metarouter/metarouter/selector/internal/text"
)

// nameShare returns the share of the words of the tool's name that the task has, rare ones
// counting more.
func (s *scorer) nameShare(d *index.Document, m *matching) float64 {
	all, met := 0.0, 0.0
	for i := range d.Terms {
		t := &d.Terms[i]
		if t.Count[index.NameField] == 0 {
			continue
		}
		idf := s.idf(t.Word)
		all += idf
		met += float64(m.name[t.Word] * idf)
	}
	if all == 0 {
		return 0
	}
	return met / all
}

// verbs returns how far the tool does what a step of the task asks for, and how far it does
// what no step asks for.
func (s *scorer) verbs(d *index.Document) (agreement, conflict float64) {
	if len(s.task.Verbs) == 0 {
		return 0, 0
	}
	readOnly := d.Tool != nil && d.Tool.Hints.IsReadOnly()
	conflict = 1
	for _, v := range s.task.Verbs {
		agreement = max(agreement, verbs.Agreement(v, d.Verbs))
		conflict = min(conflict, verbs.Conflict(v, d.Verbs, readOnly))
	}
	return agreement, conflict
}

// namesServer returns 1 if the task has all words of a server's name, else 0.
func namesServer(t text.Task, server string) float64 {
	named := 0.0
	for _, word := range index.Words(server) {
		if isGeneric(word) {
			continue
		}
		if !slices.Contains(t.Text, word) && !namesHost(t, word) {
			return 0
		}
		named = 1
	}
	return named
}

// isGeneric reports whether servers of all kinds have the word in their name.
func isGeneric(word string) bool {
	switch word {
	case "mcp", "server", "api":
		return true
	}
	return false
}

// remember returns f, which computes each value once.
func remember(f func(string) float64) func(string) float64 {
	known := make(map[string]float64)
	return func(s string) float64 {
		x, ok := known[s]
		if !ok {
			x = f(s)
			known[s] = x
		}
		return x
	}
}

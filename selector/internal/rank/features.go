package rank

import (
	"github.com/mcp-metarouter/metarouter/internal/index"
	"github.com/mcp-metarouter/metarouter/internal/verbs"
)

// namesOf returns the share of the words of the tool's name that the task has, rare ones
// counting more; and 1 if the task names the tool's server, else 0.
func (s *scorer) namesOf(d *index.Document, m *matching) (share, server float64) {
	all, met := 0.0, 0.0
	for i := range d.Terms {
		t := &d.Terms[i]
		if t.Count[index.NameField] > 0 {
			idf := s.idf(t.Word)
			all += idf
			met += float64(m.name[i] * idf)
		}
		if t.Count[index.ServerField] > 0 && server >= 0 && !isGeneric(t.Word) {
			server = 1
			if !s.values.named[t.Word] {
				server = -1
			}
		}
	}
	if all > 0 {
		share = met / all
	}
	return share, max(0, server)
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

// isGeneric reports whether servers of all kinds have the word in their name.
func isGeneric(word string) bool {
	switch word {
	case "mcp", "server", "api":
		return true
	}
	return false
}

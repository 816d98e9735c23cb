package rank

import (
	"math"

	"github.com/mcp-metarouter/metarouter/internal/index"
	"github.com/mcp-metarouter/metarouter/internal/verbs"
)

// namesOf returns the share of the words of the tool's name that the task has, rare ones
// counting more; and 1 if the task names the tool's server, else 0.
func (s *scorer) namesOf(d *index.Document, m *matching) (share, server float64) {
	inName, met, inServer := 0.0, 0.0, 0.0
	for i := range d.Terms {
		t := &d.Terms[i]
		if t.Count[index.NameField] > 0 {
			idf := s.idf(t.Word)
			inName += idf
			met += float64(m.name[i] * idf)
		}
		if t.Count[index.ServerField] > 0 && !isGeneric(t.Word) {
			idf := s.idf(t.Word)
			inServer += idf
			if s.values.named[t.Word] {
				server += idf
			}
		}
	}
	if inName > 0 {
		share = met / inName
	}
	return share, server / max(inServer, 1e-9)
}

// verbs returns how far the tool does the actions that a step of the task asks for, and how far it does
// actions that no step asks for.
func (s *scorer) verbs(d *index.Document) (agreement, conflict float64) {
	if len(s.task.Verbs) == 0 {
		return 0, 0
	}
	readOnly := d.Tool != nil && d.Tool.Reads()
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
	case "mcp", "server", "api", "remot", "local", "client", "tool", "servic":
		return true
	}
	return false
}

// number returns the share of the words of the tool's name and the task that are a plural in
// one of them and a singular in the other.
func (s *scorer) number(d *index.Document) float64 {
	if len(s.task.Plural) == 0 || d.Plurals|d.Singulars == 0 {
		return 0
	}
	common, differ, k := 0, 0, 0
	for i := range d.Terms {
		if d.Terms[i].Count[index.NameField] == 0 {
			continue
		}
		if plural, known := s.task.Plural[d.Terms[i].Word]; known && (d.Plurals|d.Singulars)>>k&1 != 0 {
			common++
			if plural != (d.Plurals>>k&1 != 0) {
				differ++
			}
		}
		k++
	}
	return float64(differ) / float64(max(1, common))
}

func sumOf(all []float64) (sum float64) {
	for _, x := range all {
		sum += x
	}
	return sum
}

// matchShare is by how much a score is lowered for the words that a tool lacks.
func matchShare(matched float64, words int) float64 {
	if matched == 0 {
		return 0
	}
	return math.Pow(matched/float64(words), matchPower)
}

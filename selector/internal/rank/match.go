package rank

import (
	"slices"

	"github.com/mcp-metarouter/metarouter/internal/index"
	"github.com/mcp-metarouter/metarouter/internal/lazy"
)

// A matching is how a tool has each word of the task.
type matching struct {
	scores  []float64 // the word's part of its BM25F score
	matched []float64 // how much of the word it has, for the score
	covered []float64 // likewise, for the confidence
	named   []float64 // how much of the word its name has
	name    []float64 // by its terms: how much the task has of the terms of its name
}

func newMatching(words int) *matching {
	return &matching{scores: make([]float64, words), matched: make([]float64, words), covered: make([]float64, words), named: make([]float64, words)}
}

func (m *matching) clear(terms int) {
	clear(m.scores)
	clear(m.matched)
	clear(m.covered)
	clear(m.named)
	m.name = slices.Grow(m.name[:0], terms)[:terms]
	clear(m.name)
}

// match fills in how a tool has the words. Its terms are in alphabetical order, as the forms are.
func (s *scorer) match(d *index.Document, m *matching) {
	m.clear(len(d.Terms))
	i := 0
	for k := range d.Terms {
		word := d.Terms[k].Word
		for i < len(s.forms) && s.forms[i].text < word {
			i++
		}
		for ; i < len(s.forms) && s.forms[i].text == word; i++ {
			s.meet(&s.forms[i], d, k, m)
		}
	}
}

// ordinary are names of servers, as stems, that are words of everyday English: alone they say
// nothing of the tools of the server.
var ordinary = lazy.Words("everyth memori file system time think sequenti fetch search note shell demo test exampl tool helper util doc data")

// meet adds a form that is the tool's term k.
func (s *scorer) meet(f *form, d *index.Document, k int, m *matching) {
	counts, i := d.Terms[k].Count, f.word
	if s.words[i].example && !f.synonym {
		counts[index.ValueField], counts[index.NameField] = 0, 0
	}
	if ordinary()[f.text] && counts[index.ServerField] > 0 && counts[index.NameField]|counts[index.DescriptionField]|counts[index.ParameterField] == 0 {
		counts[index.ServerField], counts[index.CapabilityField] = 0, 0
	}
	tf := s.frequency(d, counts)
	if tf == 0 {
		return
	}
	m.scores[i] += f.gain * tf / (saturation + tf)
	matched, covered := 1.0, 1.0
	if f.synonym {
		matched, covered = synonymWeight, synonymShare
	}
	m.matched[i] = max(m.matched[i], matched)
	m.covered[i] = max(m.covered[i], covered)
	if counts[index.NameField] == 0 {
		return
	}
	m.name[k] = max(m.name[k], covered)
	if s.words[i].names {
		m.named[i] = max(m.named[i], covered)
	}
}

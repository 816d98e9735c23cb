package rank

import (
	"math"
	"slices"
	"strings"

	"github.com/mcp-metarouter/metarouter/internal/index"
	"github.com/mcp-metarouter/metarouter/selector/internal/text"
)

// fieldWeights holds the parameters of BM25F: how much a word counts in each
// field, and how much the field's length is held against it (0 to 1).
var fieldWeights = [index.NumFields]struct{ w, b float64 }{
	index.NameField:        {3, 0.9},
	index.DescriptionField: {0.5, 0.75},
	index.ParameterField:   {1, 0.9},
	index.ValueField:       {0.35, 0.5},
	index.ServerField:      {1.5, 0.9},
}

const (
	saturation = 2    // BM25's k1
	idfPower   = 1.25 // rare words count for more than BM25 has it
	matchPower = 0.2  // of the share of a step's words that a tool has
	wordsHalf  = 12   // the BM25F that is half of all that words can say
)

// A scorer scores the words of tools for one task, by BM25F (Robertson, Zaragoza and Taylor, "Simple BM25
// extension to multiple weighted fields", 2004).
type scorer struct {
	task    text.Task
	forms   []form // of the words that some tool has, in alphabetical order
	meanLen [index.NumFields]float64
	scores  []float64 // by word: its part of the score of the tool that was looked at last
}

// A form is a word of a task that some tool has.
type form struct {
	text string
	word int     // its index in the task
	gain float64 // its part of the score at full saturation
}

func newScorer(t text.Task, c *index.Collection) *scorer {
	s := &scorer{task: t, scores: make([]float64, len(t.Words))}
	for f := range s.meanLen {
		s.meanLen[f] = max(1, c.MeanLen(index.Field(f)))
	}
	for i, w := range t.Words {
		if c.Has(w) {
			s.forms = append(s.forms, form{w, i, math.Pow(c.IDF(w), idfPower) * (saturation + 1)})
		}
	}
	slices.SortStableFunc(s.forms, func(a, b form) int { return strings.Compare(a.text, b.text) })
	return s
}

// words returns the feature of a tool's words.
func (s *scorer) words(d *index.Document) float64 {
	s.match(d)
	best := 0.0
	for _, step := range s.task.Steps {
		sum, matched := 0.0, 0.0
		for _, i := range step.Words {
			if sum += s.scores[i]; s.scores[i] > 0 {
				matched++
			}
		}
		if matched > 0 {
			best = max(best, sum*math.Pow(matched/float64(len(step.Words)), matchPower))
		}
	}
	return best / (best + wordsHalf)
}

// match looks at a tool. Its terms are in alphabetical order, as the forms are.
func (s *scorer) match(d *index.Document) {
	clear(s.scores)
	i := 0
	for k := range d.Terms {
		t := &d.Terms[k]
		for i < len(s.forms) && s.forms[i].text < t.Word {
			i++
		}
		for ; i < len(s.forms) && s.forms[i].text == t.Word; i++ { // a correction may have made two words equal
			f := &s.forms[i]
			tf := s.frequency(d, t.Count)
			s.scores[f.word] = f.gain * tf / (saturation + tf)
		}
	}
}

// frequency returns how often the tool has a word, in each field according to its
// weight and length.
func (s *scorer) frequency(d *index.Document, counts [index.NumFields]uint8) (tf float64) {
	for f, count := range counts {
		if count > 0 {
			tf += s.inField(d, index.Field(f), count)
		}
	}
	return tf
}

// inField returns the weight of so many occurrences in a field.
func (s *scorer) inField(d *index.Document, f index.Field, count uint8) float64 {
	p := fieldWeights[f]
	return p.w * float64(count) / (1 - p.b + float64(p.b*float64(d.Len[f])/s.meanLen[f]))
}

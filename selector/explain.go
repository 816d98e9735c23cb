package selector

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/mcp-metarouter/metarouter/registry"
)

// An Explanation says what a candidate's score is made of.
type Explanation struct {
	Features []FeatureShare `json:"features"` // by share, the greatest first
	Words    []WordShare    `json:"words"`    // of the task, that the candidate has; likewise
	Missing  []string       `json:"missing"`  // words of the task that it lacks
}

// A FeatureShare is what one feature brings.
type FeatureShare struct {
	Name   string  `json:"name"`
	Value  float64 `json:"value"`
	Weight float64 `json:"weight"`
	Share  float64 `json:"share"` // of the score, in [0,1]
}

// A WordShare is what one word of the task brings.
type WordShare struct {
	Word   string             `json:"word"`         // as the task has it
	As     []string           `json:"as,omitempty"` // its synonyms in the candidate
	Fields map[string]float64 `json:"fields"`       // share of the word's score by field, in [0,1]
	Share  float64            `json:"share"`        // of the score of all words, in [0,1]
	Itself bool               `json:"-"`            // not only synonyms of it are there
}

// String returns the feature's name.
func (f Feature) String() string {
	return [NumFeatures]string{
		StepFeature: "words", MeaningFeature: "meaning", StepMeaningFeature: "step meaning",
		CoverageFeature: "coverage", UseFeature: "use", CategoryFeature: "category",
	}[f]
}

// Explain says of tools that were found for a task what their scores are made
// of.
func (s *Selector) Explain(ctx context.Context, task string, candidates []Candidate) ([]Explanation, error) {
	c, err := s.registry.Collection(ctx)
	if err != nil {
		return nil, fmt.Errorf("explain: %w", err)
	}
	t := parse(task)
	t.correct(c)
	scorer := newScorer(t, c)
	spell := speller(task)
	all := make([]Explanation, len(candidates))
	for i, candidate := range candidates {
		d, ok := c.Document(candidate.Item())
		if ok {
			all[i] = scorer.explain(candidate, d)
			all[i].say(spell, candidate.Tool)
		}
	}
	return all, nil
}

// speller returns what gives the word of a task for what it is reduced to.
func speller(task string) func(stem string) string {
	whole := wholeWords(task)
	return func(stem string) string { return cmp.Or(whole[stem], unstemmed(stem, task)) }
}

// wholeWords returns the words of a text by what they are reduced to, to be found.
func wholeWords(text string) map[string]string {
	whole := make(map[string]string)
	for _, w := range plainWords(text[:min(len(text), maxTask)]) {
		if stems := registry.Words(w); len(stems) == 1 && whole[stems[0]] == "" {
			whole[stems[0]] = w
		}
	}
	return whole
}

// say has the explanation name words as the task does, and synonyms as the tool does.
func (e *Explanation) say(spell func(stem string) string, t *registry.NormalizedTool) {
	var theirs map[string]string
	for i, w := range e.Words {
		e.Words[i].Word = spell(w.Word)
		for k, synonym := range w.As {
			if theirs == nil && t != nil {
				theirs = wholeWords(string(t.Definition))
			}
			w.As[k] = strings.ToLower(cmp.Or(theirs[synonym], synonym))
		}
	}
	for i, w := range e.Missing {
		e.Missing[i] = spell(w)
	}
}

func (s *scorer) explain(c Candidate, d *registry.Document) (e Explanation) {
	for f, value := range c.Features {
		share := FeatureShare{Name: Feature(f).String(), Value: value, Weight: featureWeights[f]}
		if c.Score > 0 {
			share.Share = value * share.Weight / c.Score
		}
		e.Features = append(e.Features, share)
	}
	slices.SortStableFunc(e.Features, func(a, b FeatureShare) int { return cmp.Compare(b.Share, a.Share) })
	total := 0.0
	e.Missing = []string{}
	m := newMatching(len(s.words))
	s.match(d, m)
	for i, score := range m.scores {
		if score == 0 {
			e.Missing = append(e.Missing, s.task.words[i].text)
			continue
		}
		total += score
		e.Words = append(e.Words, s.explainWord(i, score, d))
	}
	for i := range e.Words {
		e.Words[i].Share /= total
	}
	slices.SortStableFunc(e.Words, func(a, b WordShare) int { return cmp.Compare(b.Share, a.Share) })
	return e
}

// explainWord returns what the word brings, with its score as its share.
func (s *scorer) explainWord(i int, score float64, d *registry.Document) WordShare {
	w := WordShare{Word: s.task.words[i].text, Fields: make(map[string]float64), Share: score}
	for _, f := range s.forms {
		counts, ok := d.Term(f.text)
		if !ok || f.word != i {
			continue
		}
		frequency := s.frequency(d, counts)
		if f.synonym {
			w.As = append(w.As, f.text)
		} else {
			w.Itself = true
		}
		gain := f.gain * frequency / (saturation + frequency)
		for field, n := range counts {
			if n > 0 {
				w.Fields[registry.Field(field).String()] += gain * s.inField(d, registry.Field(field), n) / frequency / score
			}
		}
	}
	return w
}

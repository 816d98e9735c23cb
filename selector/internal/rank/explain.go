package rank

import (
	"cmp"
	"context"
	"slices"

	"github.com/mcp-metarouter/metarouter/internal/index"
	"github.com/mcp-metarouter/metarouter/selector/internal/text"
)

// An Explanation is the composition of a candidate's score.
type Explanation struct {
	Features []FeatureShare `json:"features"` // by share, the greatest first
	Words    []WordShare    `json:"words"`    // of the task, that the candidate has; likewise
	Missing  []string       `json:"missing"`  // words of the task that it lacks
}

// A FeatureShare is the share of one feature.
type FeatureShare struct {
	Name   string  `json:"name"`
	Label  string  `json:"-"` // the name in plain words, after "its score is made of"
	Value  float64 `json:"value"`
	Weight float64 `json:"weight"`
	Share  float64 `json:"share"` // of the score; below 0 if it speaks against the candidate
}

// A WordShare is the share of one word of the task.
type WordShare struct {
	Word   string             `json:"word"`   // as the task has it
	Fields map[string]float64 `json:"fields"` // share of the word's score by field, in [0,1]
	Share  float64            `json:"share"`  // of the score of all words, in [0,1]
}

// names are the features' names, and labels the same in plain words.
var (
	names  = [NumFeatures]string{WordsFeature: "words", MeaningFeature: "meaning", StepMeaningFeature: "step meaning", ArgumentFeature: "arguments"}
	labels = [NumFeatures]string{
		WordsFeature: "words in common", MeaningFeature: "its meaning", StepMeaningFeature: "its meaning for a part of the task",
		ArgumentFeature: "the given arguments are all that it requires",
	}
)

// Explain returns the composition of the scores of candidates, until ctx ends. words is the task as Rank got it.
func Explain(ctx context.Context, task string, words text.Task, c *index.Collection, candidates []Candidate) []Explanation {
	s := newScorer(words, c)
	spell := text.Speller(task)
	all := make([]Explanation, len(candidates))
	for i, candidate := range candidates {
		if d, ok := c.Document(candidate.Item()); ok && ctx.Err() == nil {
			all[i] = s.explain(candidate, d, spell)
		}
	}
	return all
}

// explain names words as spell returns them for their stems.
func (s *scorer) explain(c Candidate, d *index.Document, spell func(stem string) string) (e Explanation) {
	for f, value := range c.Features {
		share := FeatureShare{Name: names[f], Label: labels[f], Value: value, Weight: fitted.weights[f]}
		if c.Score > 0 {
			share.Share = value * share.Weight / c.Score
		}
		e.Features = append(e.Features, share)
	}
	slices.SortStableFunc(e.Features, func(a, b FeatureShare) int { return cmp.Compare(b.Share, a.Share) })
	total := 0.0
	e.Missing = []string{}
	s.match(d)
	for i, score := range s.scores {
		stem := s.task.Words[i]
		if score == 0 {
			e.Missing = append(e.Missing, spell(stem))
			continue
		}
		total += score
		e.Words = append(e.Words, WordShare{Word: spell(stem), Fields: s.fields(stem, d), Share: score})
	}
	for i := range e.Words {
		e.Words[i].Share /= total
	}
	slices.SortStableFunc(e.Words, func(a, b WordShare) int { return cmp.Compare(b.Share, a.Share) })
	return e
}

// fields returns the shares of a word's score by field.
func (s *scorer) fields(stem string, d *index.Document) map[string]float64 {
	shares := make(map[string]float64)
	counts, _ := d.Term(stem)
	frequency := s.frequency(d, counts)
	for field, n := range counts {
		if n > 0 {
			shares[index.Field(field).String()] = s.inField(d, index.Field(field), n) / frequency
		}
	}
	return shares
}

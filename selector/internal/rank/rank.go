// Package rank orders tools by how well they suit a task, and how confident it is.
// It is pure: features make the score and the calibrated confidence, and the same arguments give the
// same result everywhere.
package rank

import (
	"cmp"
	"slices"
	"strings"

	"github.com/mcp-metarouter/metarouter/internal/index"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/selector/internal/text"
)

// A Candidate is a tool and how well it suits a task; or a prompt, a resource or a
// resource template, and Tool is nil.
type Candidate struct {
	Tool     *registry.NormalizedTool
	Prompt   *registry.Prompt
	Resource *registry.Resource
	Template *registry.Template
	Skill    *registry.Skill

	// Score orders the candidates of one task; it means nothing for another task. It is the
	// weighted sum of the Features.
	Score    float64
	Features [NumFeatures]float64

	// Confidence in [0,1] is the calibrated probability that the candidate is right for the
	// task, given the Features and the Evidence. It never grows from one tool to the next, nor from one
	// prompt or resource to the next.
	Confidence float64
	Evidence   [NumEvidence]float64

	// Places are the equal tools of several servers: the same name and input schema. They are
	// one choice. Tool is the first of them, the one to use. Nil if there is only Tool.
	Places []*registry.NormalizedTool

	// Ambiguous says that nothing tells which of the Places is meant.
	Ambiguous bool

	same uint64 // see [index.Document.Same]
}

// Item returns the candidate's item.
func (c Candidate) Item() registry.Item {
	return registry.Item{Tool: c.Tool, Prompt: c.Prompt, Resource: c.Resource, Template: c.Template, Skill: c.Skill}
}

// A Feature is a measure of how much better a tool suits a task than other tools. The choice of
// features is in docs/selection.md.
type Feature int

const (
	WordsFeature       Feature = iota // the words of the step that it suits best: s/(s+12), where s is their BM25F
	MeaningFeature                    // how near the sentences of task and tool are; see [Nearness]
	StepMeaningFeature                // the same of the step that is nearest
	ArgumentFeature                   // whether the given arguments have all that it requires, and more than one
	NumFeatures
)

// A Prior is knowledge of a task besides its words. The zero value is nothing.
type Prior struct {
	Crowd    int      // how many items there are to choose from; 0 means all of the collection
	Complete Complete // by the arguments that were given

	// Nearness returns how near a tool is to the task by vectors of sentences; nil without.
	Nearness func(*index.Document) Nearness
}

// A Nearness is the cosines of the vector of a tool with the vectors of the whole task and of its nearest step,
// in [0,1].
type Nearness struct{ Whole, Step float64 }

// Rank orders tools by how well they suit the task, best first, equal scores by ID.
func Rank(t text.Task, tools []*index.Document, c *index.Collection, p Prior) []Candidate {
	s := newScorer(t, c)
	ranked := make([]Candidate, len(tools))
	for i, d := range tools {
		r := &ranked[i]
		*r = Candidate{Tool: d.Tool, Prompt: d.Prompt, Resource: d.Resource, Template: d.Template, Skill: d.Skill, same: d.Same}
		r.Features[WordsFeature] = s.words(d)
		if p.Nearness != nil {
			near := p.Nearness(d)
			r.Features[MeaningFeature], r.Features[StepMeaningFeature] = near.Whole, near.Step
		}
		if d.Tool != nil {
			r.Features[ArgumentFeature] = p.Complete.of(d.Tool.ID)
		}
		r.Score = scored(&r.Features, &fitted.weights)
	}
	ranked = JoinPlaces(sorted(ranked))
	setConfidence(ranked, s.situation(cmp.Or(p.Crowd, len(c.Documents()))), fitted.sharpness)
	trustArguments(ranked)
	return ranked
}

// scored returns the weighted sum of features.
func scored(features, weights *[NumFeatures]float64) (sum float64) {
	for f, x := range features {
		sum += float64(weights[f] * x) // the conversion keeps compilers from fusing
	}
	return sum
}

// sorted sorts candidates by score, equal scores by ID, and returns them.
func sorted(all []Candidate) []Candidate {
	slices.SortFunc(all, func(a, b Candidate) int {
		if a.Score != b.Score {
			return cmp.Compare(b.Score, a.Score)
		}
		return strings.Compare(a.Item().ID(), b.Item().ID())
	})
	return all
}

// Reorder returns candidates of one task in the order that other weights give, with the confidence that
// follows. Differences of scores times sharpness are logarithms of odds. It is for programs that fit weights.
func Reorder(candidates []Candidate, weights [NumFeatures]float64, sharpness float64) []Candidate {
	ranked := slices.Clone(candidates)
	for i := range ranked {
		ranked[i].Score = scored(&ranked[i].Features, &weights)
	}
	if ranked = sorted(ranked); len(ranked) > 0 {
		setConfidence(ranked, ranked[0].Evidence, sharpness)
	}
	return ranked
}

// Package rank orders tools by how well they suit a task, and how confident it is.
// It is pure: features make the score, evidence makes the calibrated confidence, and the
// same arguments give the same result everywhere.
package rank

import (
	"cmp"
	"math"
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

	// Score orders the candidates of one task; it means nothing for another task. It is the
	// weighted sum of the Features.
	Score    float64
	Features [NumFeatures]float64

	// Confidence in [0,1] is the calibrated probability that the candidate is right for the
	// task, given the Evidence. It never grows from one tool to the next, nor from one
	// prompt or resource to the next.
	Confidence float64
	Evidence   [NumEvidence]float64

	// Places are the equal tools of several servers: the same name and input schema. They are
	// one choice. Tool is the first of them, the one to use. Nil if there is only Tool.
	Places []*registry.NormalizedTool

	// Ambiguous says that nothing tells which of the Places is meant.
	Ambiguous bool

	same uint64   // see [index.Document.Same]
	by   *learned // by which it was ranked
}

// Item returns the candidate's item.
func (c Candidate) Item() registry.Item {
	return registry.Item{Tool: c.Tool, Prompt: c.Prompt, Resource: c.Resource, Template: c.Template}
}

// fieldWeights holds the parameters of BM25F: how much a word counts in each
// field, and how much the field's length is held against it (0 to 1).
var fieldWeights = [index.NumFields]struct{ w, b float64 }{
	index.NameField:        {3, 0.9},
	index.DescriptionField: {0.5, 0.75},
	index.ParameterField:   {1, 0.9},
	index.ValueField:       {0.35, 0.5},
	index.ServerField:      {1.5, 0.9},
	index.CapabilityField:  {0.5, 0},
}

const (
	saturation    = 2    // BM25's k1
	idfPower      = 1.25 // rare words count for more than BM25 has it
	matchPower    = 0.2  // of the share of the task's words that a tool has
	synonymWeight = 0.2  // of a synonym, relative to the word itself
	wordsHalf     = 12   // the score of words that is half of all that words can say
)

// A Feature is a measure of how much better a tool suits a task than other tools.
type Feature int

const (
	StepFeature        Feature = iota // the words of the step that it suits best, divided by the best candidate's
	MeaningFeature                    // how near the sentences of task and tool are; see [Nearness]
	StepMeaningFeature                // the same of the step that is nearest
	CoverageFeature                   // the share of the task's words that the tool has, rare ones counting more
	TaskFeature                       // the words of the whole task, divided by the best candidate's
	NameFeature                       // the share of the name's words that the task has, rare ones counting more
	VerbFeature                       // whether it does the action of the task's verb
	ConflictFeature                   // whether it does the opposite, or writes where the task reads
	ServerFeature                     // whether the task names its server
	TypeFeature                       // whether it takes values such as those in the task
	NumberFeature                     // whether its name has "issue" where the task has "issues", or the reverse
	WordsFeature                      // the words of the step that it suits best: s/(s+12), where s is their score
	ArgumentFeature                   // whether the given arguments have all that it requires, and more than one
	NumFeatures
)

// Weights returns the weights of the features: for tasks with vectors of sentences, or without.
func Weights(sentences bool) [NumFeatures]float64 {
	if sentences {
		return bySentences.weights
	}
	return byWords.weights
}

// A Prior is knowledge of a task besides its words. The zero value is nothing.
type Prior struct {
	Crowd    int      // how many items there are to choose from; 0 means all of the collection
	Complete Complete // by the arguments that were given

	// Nearness returns how near a tool is to the task by vectors of sentences; nil without.
	Nearness func(*index.Document) Nearness
}

// A Nearness is how near a tool is to the whole task and to its nearest step, in [0,1], on the scale of
// the cosines of the model in the program.
type Nearness struct{ Whole, Step float64 }

// Rank orders tools by how well they suit the task, best first, equal scores by
// ID.
//
// The score is the weighted sum of the features. The feature of a step's words is BM25F
// (Robertson, Zaragoza and Taylor, "Simple BM25 extension to multiple weighted fields",
// 2004), with synonyms counting less, lowered if the tool lacks many of the words.
func Rank(t text.Task, tools []*index.Document, c *index.Collection, p Prior) []Candidate {
	s := newScorer(t, c)
	s.crowd = cmp.Or(p.Crowd, s.crowd)
	by := &byWords
	if p.Nearness != nil {
		by = &bySentences
	}
	ranked := make([]Candidate, len(tools))
	m := newMatching(len(s.words))
	for i, d := range tools {
		s.match(d, m)
		features, near := s.features(d, m), Nearness{}
		if p.Nearness != nil {
			near = p.Nearness(d)
		}
		features[MeaningFeature], features[StepMeaningFeature] = near.Whole, near.Step
		if d.Tool != nil {
			features[ArgumentFeature] = p.Complete.of(d.Tool.ID)
		}
		ranked[i] = Candidate{
			Tool: d.Tool, Prompt: d.Prompt, Resource: d.Resource, Template: d.Template,
			Features: features, Evidence: s.evidence(d, m), same: d.Same, by: by,
		}
	}
	normalize(ranked, StepFeature)
	normalize(ranked, TaskFeature)
	for i := range ranked {
		for f, x := range ranked[i].Features {
			ranked[i].Score += float64(by.weights[f] * x) // the conversion keeps compilers from fusing
		}
		ranked[i].Score = max(0, ranked[i].Score)
	}
	ranked = JoinPlaces(sorted(ranked))
	setConfidence(ranked, by.sharpness)
	trustArguments(ranked)
	return ranked
}

// sorted returns the candidates by score, equal scores by ID.
func sorted(all []Candidate) []Candidate {
	order := make([]*Candidate, len(all))
	for i := range all {
		order[i] = &all[i]
	}
	slices.SortFunc(order, func(a, b *Candidate) int {
		if a.Score != b.Score {
			return cmp.Compare(b.Score, a.Score)
		}
		return strings.Compare(a.Item().ID(), b.Item().ID())
	})
	ranked := make([]Candidate, len(all))
	for i, c := range order {
		ranked[i] = *c
	}
	return ranked
}

// normalize divides a feature by the greatest value that any candidate has.
func normalize(ranked []Candidate, f Feature) {
	most := 0.0
	for i := range ranked {
		most = max(most, ranked[i].Features[f])
	}
	if most == 0 {
		return
	}
	for i := range ranked {
		ranked[i].Features[f] /= most
	}
}

// A scorer scores tools for one task.
type scorer struct {
	task    text.Task
	words   []scoredWord // of the task
	forms   []form       // theirs, in alphabetical order
	needed  int          // how many words a tool should have
	all     float64      // the weights of all words, as far as one tool can cover them
	crowd   int          // how many items there are
	idf     func(word string) float64
	values  values
	unknown float64 // see UnknownEvidence
	meanLen [index.NumFields]float64
}

// A scoredWord is a word of the task as one collection sees it.
type scoredWord struct {
	share  float64 // of all words, by their inverse document frequencies
	weight float64 // of the task that the tool covers
	names  bool    // whether it says something in the name of a tool
	missed bool    // whether a tool without it lacks something

	// example says that it is the extension of a path, such as "md". A tool that has it where
	// it describes a parameter has it as an example only.
	example bool
}

// A form is a word or a synonym of it that some tool has.
type form struct {
	text    string
	word    int     // its index in the task
	gain    float64 // its part of the score at full saturation
	synonym bool
}

func newScorer(t text.Task, c *index.Collection) *scorer {
	s := &scorer{task: t, crowd: len(c.Documents()), idf: c.IDF, values: valuesOf(t)}
	for f := range s.meanLen {
		s.meanLen[f] = max(1, c.MeanLen(index.Field(f)))
	}
	needed := func(w text.Word) bool { return !w.Optional || c.Has(w.Text) }
	all := !slices.ContainsFunc(t.Words, needed) // else nothing would count
	for i, w := range t.Words {
		s.words = append(s.words, scoredWord{
			weight: weight(&w, c), names: !w.IsGeneral(), missed: all || needed(w),
			example: slices.ContainsFunc(t.Literals, func(l text.Literal) bool { return l.Extension == w.Text }),
		})
		if s.words[i].missed {
			s.needed++
			s.all += s.words[i].weight
		}
		add := func(term string, synonym bool) {
			if c.Has(term) {
				gain := math.Pow(c.IDF(term), idfPower) * (saturation + 1)
				if synonym {
					gain *= synonymWeight
				}
				s.forms = append(s.forms, form{term, i, gain, synonym})
			}
		}
		add(w.Text, false)
		for _, spelling := range w.Spellings {
			add(spelling, false)
		}
		for _, synonym := range w.Synonyms {
			add(synonym, true)
		}
	}
	slices.SortStableFunc(s.forms, func(a, b form) int { return strings.Compare(a.text, b.text) })
	rare := 0.0
	for i, w := range t.Words {
		s.words[i].share = c.IDF(w.Text)
		if s.words[i].missed {
			rare += s.words[i].share
		}
	}
	for i := range s.words {
		s.words[i].share /= rare
	}
	// A long task has several steps, and no tool is for all of them.
	s.all /= math.Sqrt(max(1, float64(len(t.Words))/10))
	s.unknown = s.unknownShare()
	return s
}

// features returns the features of one tool; see normalize for those that depend on the others.
func (s *scorer) features(d *index.Document, m *matching) (f [NumFeatures]float64) {
	for i := range s.words {
		f[CoverageFeature] += float64(m.matched[i] * s.words[i].share)
	}
	for _, step := range s.task.Steps {
		sum, matched, words := 0.0, 0.0, 0 // words that count
		for _, i := range step.Words {
			sum += m.scores[i]
			matched += m.matched[i]
			if s.words[i].missed || m.matched[i] > 0 {
				words++
			}
		}
		f[StepFeature] = max(f[StepFeature], sum*matchShare(matched, words))
	}
	f[WordsFeature] = f[StepFeature] / (f[StepFeature] + wordsHalf)
	f[TaskFeature] = sumOf(m.scores) * matchShare(sumOf(m.matched), max(1, s.needed))
	f[NameFeature], f[ServerFeature] = s.namesOf(d, m)
	f[VerbFeature], f[ConflictFeature] = s.verbs(d)
	f[TypeFeature] = s.types(d)
	f[NumberFeature] = s.number(d)
	return f
}

// frequency returns how often the tool has a word, in each field according to its
// weight and length.
func (s *scorer) frequency(d *index.Document, counts [index.NumFields]uint8) float64 {
	tf := 0.0
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

// weight returns how much the word tells about which tool the task needs. A word that no
// tool has counts half, since it may be just a name. A verb counts a quarter: "delete"
// tells little about the tool, "invoice" much. A foreign word counts a third, since the
// English words for it count as well. Numbers are arguments and do not count.
func weight(w *text.Word, c *index.Collection) float64 {
	if strings.Trim(w.Text, "0123456789") == "" {
		return 0
	}
	weight := c.IDF(w.Text)
	if !c.Has(w.Text) {
		weight /= 2
	}
	if w.Foreign {
		weight /= 3
	}
	if w.IsGeneral() {
		weight /= 4
	}
	return weight
}

// SearchWords returns the words to search for, and the weight of each.
func SearchWords(words []text.Word) map[string]float64 {
	weights := make(map[string]float64)
	for _, w := range words {
		for _, synonym := range w.Synonyms {
			weights[synonym] = synonymWeight
		}
	}
	for _, w := range words {
		weights[w.Text] = 1
		for _, spelling := range w.Spellings {
			weights[spelling] = 1
		}
	}
	return weights
}

package selector

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/mcp-metarouter/metarouter/internal/vectors"
	"github.com/mcp-metarouter/metarouter/registry"
)

// A Candidate is a tool and how well it suits a task. Where a [Query] asks for
// other kinds, it is what one of the other fields holds; Tool is then nil.
type Candidate struct {
	Tool     *registry.NormalizedTool
	Prompt   *registry.Prompt
	Resource *registry.Resource
	Template *registry.Template

	// Score orders the candidates of one task; it means nothing beyond it. It is
	// made of the Features, by their weights.
	Score    float64
	Features [NumFeatures]float64

	// Confidence in [0,1] is the probability that the candidate is right for the
	// task, as far as the Signs tell. It never grows from one tool to the next, or
	// from one to the next of what is no tool.
	Confidence float64
	Signs      [NumSigns]float64
}

// Item returns what the candidate is.
func (c Candidate) Item() registry.Item {
	return registry.Item{Tool: c.Tool, Prompt: c.Prompt, Resource: c.Resource, Template: c.Template}
}

// fieldWeights holds the parameters of BM25F: how much a word counts in each
// field, and how much the field's length is held against it (0 to 1).
var fieldWeights = [registry.NumFields]struct{ w, b float64 }{
	registry.NameField:        {3, 0.9},
	registry.DescriptionField: {0.5, 0.75},
	registry.ParameterField:   {1, 0.9},
	registry.ValueField:       {0.5, 0.5},
	registry.ServerField:      {1.5, 0.9},
	registry.CapabilityField:  {0.5, 0},
}

const (
	saturation    = 2    // BM25's k1
	idfPower      = 1.25 // rare words count for more than BM25 has it
	matchPower    = 0.2  // of the share of the task's words that a tool has
	synonymWeight = 0.2  // of a synonym beside the word itself
)

// A Feature is a piece of evidence that a tool suits a task.
type Feature int

const (
	StepFeature        Feature = iota // the words of the step that it suits best, beside the candidate that suits one best
	MeaningFeature                    // the cosine of the meanings of task and tool
	StepMeaningFeature                // that of the step that it suits best
	CoverageFeature                   // share of the task's words that the tool has, rare ones counting more
	UseFeature                        // whether it was called after such tasks before
	CategoryFeature                   // how sure a classifier is that the task is of a category whose tag the tool bears
	NumFeatures
)

// featureWeights are found by internal/train.
var featureWeights = [NumFeatures]float64{
	StepFeature:        1,
	MeaningFeature:     1.5,
	StepMeaningFeature: 1.9,
	CoverageFeature:    2,
	UseFeature:         4,
	CategoryFeature:    0.5, // not found so: no corpus has categories
}

// Weights returns by how much each feature counts.
func Weights() [NumFeatures]float64 { return featureWeights }

// Rank orders tools by how well they suit the task, best first, those of equal
// score by ID. It is pure: the same arguments give the same order everywhere.
//
// The score is the weighted sum of the [Feature]s. That of a step's words is BM25F
// (Robertson, Zaragoza and Taylor, "Simple BM25 extension to multiple weighted
// fields", 2004), with synonyms for less, lowered where the tool lacks many of the
// words.
func Rank(task string, tools []*registry.Document, c *registry.Collection) []Candidate {
	return rank(parse(task), tools, c, belief{})
}

// A belief is what is known of a task beside its words. The zero value is nothing.
type belief struct {
	use      map[string]float64 // evidence from use, by tool ID
	category string             // the tag of the task's category
	sure     float64            // how likely it is of that
}

// rank is Rank with what else is known of the task.
func rank(t task, tools []*registry.Document, c *registry.Collection, b belief) []Candidate {
	s := newScorer(t, c)
	ranked := make([]Candidate, len(tools))
	m := newMatching(len(s.words))
	for i, d := range tools {
		s.match(d, m)
		features := s.features(d, m)
		if d.Tool != nil {
			features[UseFeature] = b.use[d.Tool.ID]
			if b.sure > 0 && slices.Contains(d.Tool.Capabilities, b.category) {
				features[CategoryFeature] = b.sure
			}
		}
		ranked[i] = Candidate{
			Tool: d.Tool, Prompt: d.Prompt, Resource: d.Resource, Template: d.Template,
			Features: features, Signs: s.signs(d, features, m),
		}
	}
	relate(ranked, StepFeature)
	for i := range ranked {
		for f, x := range ranked[i].Features {
			ranked[i].Score += float64(featureWeights[f] * x) // the conversion keeps compilers from fusing
		}
		ranked[i].Score = max(0, ranked[i].Score)
	}
	slices.SortFunc(ranked, func(a, b Candidate) int {
		return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.Item().ID(), b.Item().ID()))
	})
	judge(ranked)
	return ranked
}

// relate divides a feature by the greatest that any candidate has.
func relate(ranked []Candidate, f Feature) {
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
	task    task
	words   []scoredWord     // of the task
	forms   []form           // theirs, in alphabetical order
	meaning vectors.Vector   // of the task
	steps   []vectors.Vector // their meanings
	all     float64          // the weights of all words, as far as one tool can cover them
	crowd   int              // how many items there are
	meanLen [registry.NumFields]float64
}

// A scoredWord is a word of the task as one collection sees it.
type scoredWord struct {
	share  float64 // of all words, by their inverse document frequencies
	weight float64 // in what the tool covers of the task
	names  bool    // whether it says something in the name of a tool
}

// A form is a word or a synonym of it that some tool has.
type form struct {
	text    string
	word    int     // its index in the task
	gain    float64 // what it adds to the score at full saturation
	synonym bool
}

func newScorer(t task, c *registry.Collection) *scorer {
	s := &scorer{task: t, meaning: c.Meaning(t.text), crowd: len(c.Documents())}
	for _, step := range t.steps {
		s.steps = append(s.steps, c.Meaning(step.text))
	}
	for f := range s.meanLen {
		s.meanLen[f] = max(1, c.MeanLen(registry.Field(f)))
	}
	for i, w := range t.words {
		s.words = append(s.words, scoredWord{weight: w.weight(c), names: !w.general()})
		s.all += s.words[i].weight
		add := func(text string, synonym bool) {
			if c.Has(text) {
				gain := math.Pow(c.IDF(text), idfPower) * (saturation + 1)
				if synonym {
					gain *= synonymWeight
				}
				s.forms = append(s.forms, form{text, i, gain, synonym})
			}
		}
		add(w.text, false)
		for _, text := range w.synonyms {
			add(text, true)
		}
	}
	slices.SortStableFunc(s.forms, func(a, b form) int { return strings.Compare(a.text, b.text) })
	rare := 0.0
	for i, w := range t.words {
		s.words[i].share = c.IDF(w.text)
		rare += s.words[i].share
	}
	for i := range s.words {
		s.words[i].share /= rare
	}
	// A long task has several steps, and no tool is for all of them.
	s.all /= math.Sqrt(max(1, float64(len(t.words))/10))
	return s
}

// A matching is what a tool has of each word of the task.
type matching struct {
	scores  []float64 // what the word adds to its BM25F score
	matched []float64 // how much of the word it has, for the score
	covered []float64 // likewise, for the confidence
	named   []float64 // how much of the word its name has
}

func newMatching(words int) *matching {
	return &matching{make([]float64, words), make([]float64, words), make([]float64, words), make([]float64, words)}
}

func (m *matching) clear() {
	clear(m.scores)
	clear(m.matched)
	clear(m.covered)
	clear(m.named)
}

// match fills in what a tool has of the words. Forms and the tool's terms are both
// sorted, so one pass over both meets all.
func (s *scorer) match(d *registry.Document, m *matching) {
	m.clear()
	terms := d.Terms
	for _, f := range s.forms {
		for len(terms) > 0 && terms[0].Word < f.text {
			terms = terms[1:]
		}
		if len(terms) == 0 {
			return
		}
		if terms[0].Word != f.text {
			continue
		}
		counts, i := terms[0].Count, f.word
		tf := s.frequency(d, counts)
		m.scores[i] += f.gain * tf / (saturation + tf)
		matched, covered := 1.0, 1.0
		if f.synonym {
			matched, covered = synonymWeight, synonymShare
		}
		m.matched[i] = max(m.matched[i], matched)
		m.covered[i] = max(m.covered[i], covered)
		if s.words[i].names && counts[registry.NameField] > 0 {
			m.named[i] = max(m.named[i], covered)
		}
	}
}

// features returns what speaks for the tool alone; see relate for what is then
// seen beside others.
func (s *scorer) features(d *registry.Document, m *matching) (f [NumFeatures]float64) {
	f[MeaningFeature] = max(0, float64(s.meaning.Dot(d.Vector)))
	for _, v := range s.steps {
		f[StepMeaningFeature] = max(f[StepMeaningFeature], float64(v.Dot(d.Vector)))
	}
	for i := range s.words {
		f[CoverageFeature] += float64(m.matched[i] * s.words[i].share)
	}
	for _, step := range s.task.steps {
		sum, matched := 0.0, 0.0
		for _, i := range step.words {
			sum += m.scores[i]
			matched += m.matched[i]
		}
		f[StepFeature] = max(f[StepFeature], sum*matchShare(matched, len(step.words)))
	}
	return f
}

// matchShare is by how much a score is lowered for the words that a tool lacks.
func matchShare(matched float64, words int) float64 {
	if matched == 0 {
		return 0
	}
	return math.Pow(matched/float64(words), matchPower)
}

// frequency returns how often the tool has a word, in each field according to its
// weight and length.
func (s *scorer) frequency(d *registry.Document, counts [registry.NumFields]uint8) float64 {
	tf := 0.0
	for f, count := range counts {
		if count > 0 {
			tf += s.inField(d, registry.Field(f), count)
		}
	}
	return tf
}

// inField returns what so many occurrences in a field come to.
func (s *scorer) inField(d *registry.Document, f registry.Field, count uint8) float64 {
	p := fieldWeights[f]
	return p.w * float64(count) / (1 - p.b + float64(p.b*float64(d.Len[f])/s.meanLen[f]))
}

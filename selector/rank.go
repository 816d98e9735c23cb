package selector

import (
	"cmp"
	"math"
	"slices"

	"github.com/mcp-metarouter/metarouter/registry"
)

// A Candidate is a tool and how well it suits a task. Where a [Query] asks for
// other kinds, it is what one of the other fields holds; Tool is then nil.
type Candidate struct {
	Tool     *registry.NormalizedTool
	Prompt   *registry.Prompt
	Resource *registry.Resource
	Template *registry.Template

	// Score orders the candidates of one task; it means nothing beyond it.
	Score float64

	// Confidence in [0,1] says how much of the task the tool is seen to cover,
	// and how clearly it stands out. It never grows from one tool to the next, or
	// from one to the next of what is no tool. It is evidence, not yet a
	// calibrated probability.
	Confidence float64
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
	serverWeight  = 0.1  // of the mean of the server's three best tools
)

// Rank orders tools by how well they suit the task, best first, those of equal
// score by ID. It is pure: the same arguments give the same order everywhere.
//
// The score is BM25F (Robertson, Zaragoza and Taylor, "Simple BM25 extension to
// multiple weighted fields", 2004) over the task's words and, for less, their
// synonyms; lowered where the tool lacks many of the task's words, and raised
// where its server has other tools for the task.
func Rank(task string, tools []*registry.Document, c *registry.Collection) []Candidate {
	return rank(parse(task), tools, c)
}

func rank(words []word, tools []*registry.Document, c *registry.Collection) []Candidate {
	s := newScorer(words, c)
	ranked := make([]Candidate, len(tools))
	for i, d := range tools {
		ranked[i] = Candidate{
			Tool: d.Tool, Prompt: d.Prompt, Resource: d.Resource, Template: d.Template,
			Score: s.score(d), Confidence: s.confidence(d),
		}
	}
	addServerEvidence(ranked)
	slices.SortFunc(ranked, func(a, b Candidate) int {
		return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.Item().ID(), b.Item().ID()))
	})
	standOut(ranked)
	return ranked
}

// A scorer scores tools for one task.
type scorer struct {
	words   []scoredWord
	all     float64 // the weights of all words, as far as one tool can cover them
	meanLen [registry.NumFields]float64
}

// A scoredWord is a word of the task as one collection sees it.
type scoredWord struct {
	forms  []form  // the word and its synonyms, without those that no tool has
	weight float64 // in what the tool covers of the task
	names  bool    // whether it says something in the name of a tool
}

type form struct {
	text    string
	gain    float64 // what it adds to the score at full saturation
	synonym bool
}

func newScorer(words []word, c *registry.Collection) *scorer {
	s := &scorer{}
	for f := range s.meanLen {
		s.meanLen[f] = max(1, c.MeanLen(registry.Field(f)))
	}
	for _, w := range words {
		scored := scoredWord{weight: w.weight(c), names: !w.general()}
		s.all += scored.weight
		add := func(text string, synonym bool) {
			if c.Has(text) {
				gain := math.Sqrt(float64(w.count)) * math.Pow(c.IDF(text), idfPower) * (saturation + 1)
				if synonym {
					gain *= synonymWeight
				}
				scored.forms = append(scored.forms, form{text, gain, synonym})
			}
		}
		add(w.text, false)
		for _, text := range w.synonyms {
			add(text, true)
		}
		s.words = append(s.words, scored)
	}
	// A long task has several steps, and no tool is for all of them.
	s.all /= math.Sqrt(max(1, float64(len(words))/10))
	return s
}

// score returns the tool's BM25F score.
func (s *scorer) score(d *registry.Document) float64 {
	sum, matched := 0.0, 0.0
	for _, w := range s.words {
		found := 0.0
		for _, f := range w.forms {
			tf := s.frequency(d, f.text)
			if tf == 0 {
				continue
			}
			sum += f.gain * tf / (saturation + tf)
			if f.synonym {
				found = max(found, synonymWeight)
			} else {
				found = 1
			}
		}
		matched += found
	}
	if matched == 0 {
		return 0
	}
	return sum * math.Pow(matched/float64(len(s.words)), matchPower)
}

// frequency returns how often the tool has the word, in each field according to
// its weight and length.
func (s *scorer) frequency(d *registry.Document, word string) float64 {
	tf := 0.0
	counts, _ := d.Term(word)
	for f, count := range counts {
		if count > 0 {
			p := fieldWeights[f]
			tf += p.w * float64(count) / (1 - p.b + p.b*float64(d.Len[f])/s.meanLen[f])
		}
	}
	return tf
}

// synonymShare is how much of a word a tool covers that has a synonym of it.
const synonymShare = 0.75

// confidence returns the share of the task's words that the tool has, each
// counted by its weight, lifted where the tool's name has them.
func (s *scorer) confidence(d *registry.Document) float64 {
	covered, named := 0.0, 0.0
	for _, w := range s.words {
		share, nameShare := 0.0, 0.0
		for _, f := range w.forms {
			worth := 1.0
			if f.synonym {
				worth = synonymShare
			}
			if counts, ok := d.Term(f.text); ok {
				share = max(share, worth)
				if w.names && counts[registry.NameField] > 0 {
					nameShare = max(nameShare, worth)
				}
			}
		}
		covered += share * w.weight
		named += nameShare
	}
	if s.all == 0 {
		return 0
	}
	coverage := min(1, covered/s.all)
	name := min(1, named/float64(max(1, d.Len[registry.NameField])))
	return lift(coverage, name/2)
}

// lift raises a confidence by evidence in [0,1]: not at all where there is no
// confidence, and never above 1.
func lift(confidence, evidence float64) float64 {
	return confidence + (1-confidence)*confidence*evidence
}

// standOut lifts the confidence in the first candidate by its lead over the
// second, and lets it grow nowhere below.
func standOut(ranked []Candidate) {
	if len(ranked) == 0 || ranked[0].Score == 0 {
		return
	}
	lead := 1.0
	if len(ranked) > 1 {
		lead -= ranked[1].Score / ranked[0].Score
	}
	ranked[0].Confidence = lift(ranked[0].Confidence, lead/2)
	for i := 1; i < len(ranked); i++ {
		ranked[i].Confidence = min(ranked[i].Confidence, ranked[i-1].Confidence)
	}
}

// addServerEvidence raises the tools of servers that have several for the task.
func addServerEvidence(ranked []Candidate) {
	scores := make(map[string][]float64)
	for _, c := range ranked {
		server := c.Item().Server()
		scores[server] = append(scores[server], c.Score)
	}
	evidence := make(map[string]float64, len(scores))
	for server, all := range scores {
		slices.Sort(all)
		best := all[max(0, len(all)-3):]
		for _, score := range best {
			evidence[server] += score / float64(len(best))
		}
	}
	for i := range ranked {
		ranked[i].Score += serverWeight * evidence[ranked[i].Item().Server()]
	}
}

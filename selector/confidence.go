package selector

import (
	"math"
	"slices"

	"github.com/mcp-metarouter/metarouter/registry"
)

// A Sign is evidence of whether a candidate is right at all, while a [Feature]
// tells it from others.
type Sign int

const (
	CoveredSign Sign = iota // share of the task's words that it has; actions and unknown words count less
	NamedSign               // share of its name's words that the task has
	MeaningSign             // as MeaningFeature and StepMeaningFeature
	StepMeaningSign
	LeadSign   // by how much its score is above that of the next best
	BehindSign // by how much its score is below that of the best
	CrowdSign  // logarithm of how many there are to choose from
	LengthSign // logarithm of how many words the task has
	NumSigns
)

// signWeights and confidences are found by internal/train.
var (
	signBias    = -7.03
	signWeights = [NumSigns]float64{
		CoveredSign:     0.619,
		NamedSign:       0.228,
		MeaningSign:     3.71,
		StepMeaningSign: 5.32,
		LeadSign:        5.7,
		BehindSign:      -2.94,
		CrowdSign:       -0.277,
		LengthSign:      0.568,
	}

	// confidences are the confidence that belongs to a sum of signs, at so many
	// points from leastSum on, linear between them.
	confidences = [...]float64{0.097, 0.13, 0.14, 0.149, 0.169, 0.236, 0.316, 0.406, 0.558, 0.72, 0.814, 0.882, 0.949, 0.969, 0.969, 0.98, 0.98}
)

// hopeWeights are those of the best candidate's signs for whether any tool will
// do at all.
var (
	hopeBias    = -4.93
	hopeWeights = [NumSigns]float64{
		NamedSign:       0.48,
		MeaningSign:     5.83,
		StepMeaningSign: 5.84,
		LeadSign:        0.862,
		CrowdSign:       -0.468,
	}
)

// Hope returns the probability that a right tool is among the first, by the signs
// of the best, where as many tasks have one as have none.
func Hope(best [NumSigns]float64) float64 {
	return 1 / (1 + math.Exp(-weigh(hopeBias, hopeWeights, best)))
}

func weigh(bias float64, weights, signs [NumSigns]float64) float64 {
	for i, x := range signs {
		bias += float64(weights[i] * x) // the conversion keeps compilers from fusing
	}
	return bias
}

const (
	leastSum = -4.0
	sumStep  = 0.5
)

// Belief returns the confidence that signs justify.
func Belief(signs [NumSigns]float64) float64 {
	sum := weigh(signBias, signWeights, signs)
	at := min(max(0, (sum-leastSum)/sumStep), float64(len(confidences)-1))
	i := min(int(at), len(confidences)-2)
	part := at - float64(i)
	return float64(confidences[i]*(1-part)) + float64(confidences[i+1]*part)
}

// sameMeaning is how near a candidate's meaning must be to count, where it has no
// more of the task's words than an action that tools of all kinds have.
const sameMeaning = 0.5

// synonymShare is how much of a word a tool covers that has a synonym of it.
const synonymShare = 0.75

// signs returns those that the candidate shows by itself.
func (s *scorer) signs(d *registry.Document, f [NumFeatures]float64, m *matching) (signs [NumSigns]float64) {
	covered, named := 0.0, 0.0
	specific, met := 0, 0 // words that say what the task is about, and those of them that the candidate has
	for i, w := range s.words {
		covered += float64(m.covered[i] * w.weight)
		named += m.named[i]
		if w.names {
			specific++
			if m.covered[i] > 0 {
				met++
			}
		}
	}
	if s.all > 0 {
		signs[CoveredSign] = min(1, covered/s.all)
	}
	signs[NamedSign] = min(1, named/float64(max(1, d.Len[registry.NameField])))
	if specific == 0 || met > 0 || max(f[MeaningFeature], f[StepMeaningFeature]) >= sameMeaning {
		signs[MeaningSign], signs[StepMeaningSign] = f[MeaningFeature], f[StepMeaningFeature]
	}
	signs[CrowdSign] = math.Log(float64(1 + s.crowd))
	signs[LengthSign] = math.Log(float64(1 + len(s.words)))
	return signs
}

// judge sets the confidence in candidates that are in order. Where nothing speaks
// for one, there is none.
func judge(ranked []Candidate) {
	if len(ranked) == 0 || ranked[0].Score == 0 {
		return
	}
	best := ranked[0].Score
	ranked[0].Signs[LeadSign] = 1
	if len(ranked) > 1 {
		ranked[0].Signs[LeadSign] = 1 - ranked[1].Score/best
	}
	for i := range ranked {
		c := &ranked[i]
		c.Signs[BehindSign] = 1 - c.Score/best
		if slices.Max(c.Features[:]) > 0 {
			c.Confidence = Belief(c.Signs)
		}
		if i > 0 {
			c.Confidence = min(c.Confidence, ranked[i-1].Confidence)
		}
	}
}

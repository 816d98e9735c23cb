package rank

import (
	"math"
	"slices"

	"github.com/mcp-metarouter/metarouter/internal/index"
)

// Evidence is a measure of whether a candidate is right at all, while a [Feature] tells
// it from other candidates.
type Evidence int

const (
	CoveredEvidence Evidence = iota // the share of the task's words that it has; actions and unknown words count less
	NamedEvidence                   // the share of its name's words that the task has
	MeaningEvidence                 // as MeaningFeature and StepMeaningFeature
	StepMeaningEvidence
	LeadEvidence   // by how much its score is above that of the next best
	BehindEvidence // by how much its score is below that of the best
	CrowdEvidence  // logarithm of how many there are to choose from
	LengthEvidence // logarithm of how many words the task has
	NumEvidence
)

// Thresholds of the confidence in the first candidate.
const (
	DefaultFindThreshold = 0.25 // from it on, an answer is sure
	AbstainBelow         = 0.05 // below it, nothing is an answer
)

// evidenceWeights and confidences are found by tools/train.
var (
	evidenceBias    = -7.03
	evidenceWeights = [NumEvidence]float64{
		CoveredEvidence:     0.619,
		NamedEvidence:       0.228,
		MeaningEvidence:     3.71,
		StepMeaningEvidence: 5.32,
		LeadEvidence:        5.7,
		BehindEvidence:      -2.94,
		CrowdEvidence:       -0.277,
		LengthEvidence:      0.568,
	}

	// confidences are the calibrated confidences at the weighted sums of evidence leastSum,
	// leastSum+sumStep and so on; between these points they are interpolated.
	confidences = [...]float64{0.097, 0.13, 0.14, 0.149, 0.169, 0.236, 0.316, 0.406, 0.558, 0.72, 0.814, 0.882, 0.949, 0.969, 0.969, 0.98, 0.98}
)

// answerWeights weigh the best candidate's evidence for whether any tool is right at all.
var (
	answerBias    = -4.93
	answerWeights = [NumEvidence]float64{
		NamedEvidence:       0.48,
		MeaningEvidence:     5.83,
		StepMeaningEvidence: 5.84,
		LeadEvidence:        0.862,
		CrowdEvidence:       -0.468,
	}
)

// Answerable returns the probability that a right tool is among the first candidates,
// given the evidence of the best one, c, if half of all tasks have a right tool.
func (c Candidate) Answerable() float64 {
	return 1 / (1 + math.Exp(-weigh(answerBias, answerWeights, c.Evidence)))
}

func weigh(bias float64, weights, evidence [NumEvidence]float64) float64 {
	for i, x := range evidence {
		bias += float64(weights[i] * x) // the conversion keeps compilers from fusing
	}
	return bias
}

const (
	leastSum = -4.0
	sumStep  = 0.5
)

// calibrated returns the confidence in a candidate with the evidence.
func calibrated(evidence [NumEvidence]float64) float64 {
	sum := weigh(evidenceBias, evidenceWeights, evidence)
	at := min(max(0, (sum-leastSum)/sumStep), float64(len(confidences)-1))
	i := min(int(at), len(confidences)-2)
	part := at - float64(i)
	return float64(confidences[i]*(1-part)) + float64(confidences[i+1]*part)
}

// sameMeaning is how near a candidate's meaning must be to count if the candidate has
// none of the task's words but actions that tools of all kinds have.
const sameMeaning = 0.5

// synonymShare is how much of a word a tool covers that has only a synonym of it.
const synonymShare = 0.75

// evidence returns the evidence that does not depend on other candidates.
func (s *scorer) evidence(d *index.Document, f [NumFeatures]float64, m *matching) (e [NumEvidence]float64) {
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
		e[CoveredEvidence] = min(1, covered/s.all)
	}
	e[NamedEvidence] = min(1, named/float64(max(1, d.Len[index.NameField])))
	if specific == 0 || met > 0 || max(f[MeaningFeature], f[StepMeaningFeature]) >= sameMeaning {
		e[MeaningEvidence], e[StepMeaningEvidence] = f[MeaningFeature], f[StepMeaningFeature]
	}
	e[CrowdEvidence] = math.Log(float64(1 + s.crowd))
	e[LengthEvidence] = math.Log(float64(1 + len(s.words)))
	return e
}

// leastLeader is a score below which a candidate has no lead worth the name: it may be the only
// one that has anything to do with the task, and still have next to nothing.
const leastLeader = 0.5

// setConfidence sets the confidence in candidates that are in order. A candidate without
// any feature has none.
func setConfidence(ranked []Candidate) {
	if len(ranked) == 0 || ranked[0].Score == 0 {
		return
	}
	best, second := ranked[0].Score, 0.0
	if len(ranked) > 1 {
		second = ranked[1].Score
	}
	ranked[0].Evidence[LeadEvidence] = (best - second) / max(best, leastLeader)
	for i := range ranked {
		c := &ranked[i]
		c.Evidence[BehindEvidence] = 1 - c.Score/best
		if slices.Max(c.Features[:]) > 0 {
			c.Confidence = calibrated(c.Evidence)
		}
		if i > 0 {
			c.Confidence = min(c.Confidence, ranked[i-1].Confidence)
		}
	}
}

package rank

import (
	"cmp"
	"math"
	"slices"

	"github.com/mcp-metarouter/metarouter/internal/index"
)

// Evidence is a measure of whether a candidate is right at all, while a [Feature] tells
// it from other candidates. Features are evidence, too.
type Evidence int

const (
	CoveredEvidence Evidence = iota // the share of the task's words that it has; actions and unknown words count less
	NamedEvidence                   // the share of its name's words that the task has
	UnmetEvidence                   // whether it has no word of the task's subject
	UnknownEvidence                 // the share of the words of the task's subject that no item has
	ScoreEvidence                   // its score
	ShareEvidence                   // the logarithm of the odds for it among the first, by their scores
	CrowdEvidence                   // logarithm of how many there are to choose from
	LengthEvidence                  // logarithm of how many words the task has
	NumEvidence
)

// Thresholds of the confidence in the first candidate.
const (
	DefaultFindThreshold = 0.6 // from it on, an answer is sure unless the next tool is as likely
	LikelyToo            = 0.8 // how near to it, as a part, the confidence in the next tool makes an answer unsure
	AbstainBelow         = 0.1 // below it, nothing is an answer
)

// calibrated returns the confidence in a candidate: the probability that anything fits the
// task, times the probability that the candidate is right if so, and the meaning of this product for
// tasks with known tools.
func calibrated(c *Candidate) float64 {
	by := cmp.Or(c.by, &bySentences) // candidates that were stored do not say it
	odds := math.Log(product(by.fitness.weigh(c), by.rightness.weigh(c)))
	at := min(max(0, (odds-leastOdds)/oddsStep), numConfidences-1)
	i := min(int(at), numConfidences-2)
	part := at - float64(i)
	return float64(by.confidences[i]*(1-part)) + float64(by.confidences[i+1]*part)
}

// product returns the odds of both of two things that are independent, from the logarithms
// of the odds of each.
func product(a, b float64) float64 {
	x, y := math.Exp(-a), math.Exp(-b)
	return 1 / (x + y + float64(x*y))
}

// A learned is fitted to tasks with known tools.
type learned struct {
	weights     [NumFeatures]float64    // of the features, in the score
	sharpness   float64                 // makes logarithms of odds of differences of scores
	fitness     weights                 // the odds that the catalog has the tool that the task needs
	rightness   weights                 // the odds for a candidate to be right if it has
	confidences [numConfidences]float64 // the calibrated confidences, see leastOdds
}

// weights make the logarithm of odds of evidence and features.
type weights struct {
	bias     float64
	evidence [NumEvidence]float64
	features [NumFeatures]float64
}

func (w *weights) weigh(c *Candidate) float64 {
	sum := w.bias
	for i, x := range c.Evidence {
		sum += float64(w.evidence[i] * x) // the conversion keeps compilers from fusing
	}
	for i, x := range c.Features {
		sum += float64(w.features[i] * x)
	}
	return sum
}

// The logarithms of odds that have a calibrated confidence: leastOdds, leastOdds+oddsStep and
// so on. Between them it is interpolated.
const (
	leastOdds      = -6.0
	oddsStep       = 0.5
	numConfidences = 21
)

// synonymShare is how much of a word a tool covers that has only a synonym of it.
const synonymShare = 0.75

// evidence returns the evidence that does not depend on other candidates.
func (s *scorer) evidence(d *index.Document, m *matching) (e [NumEvidence]float64) {
	covered, named := 0.0, 0.0
	specific, met := 0, 0 // words of the task's subject, and how many of them the candidate has
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
	if specific > 0 && met == 0 {
		e[UnmetEvidence] = 1
	}
	e[UnknownEvidence] = s.unknown
	e[CrowdEvidence] = math.Log(float64(1 + s.crowd))
	e[LengthEvidence] = math.Log(float64(1 + len(s.words)))
	return e
}

// unknownShare returns the share of the words of the task's subject that no item
// has, nor a synonym of them.
func (s *scorer) unknownShare() float64 {
	known := make([]bool, len(s.words))
	for _, f := range s.forms {
		known[f.word] = true
	}
	specific, unknown := 0.0, 0.0
	for i, w := range s.words {
		if w.names && w.weight > 0 && !s.task.Words[i].Foreign {
			specific++
			if !known[i] {
				unknown++
			}
		}
	}
	return unknown / max(1, specific)
}

// Reorder returns candidates of one task in the order that other weights give, with the
// evidence and the confidence that follow. Differences of scores times sharpness are
// logarithms of odds. It is for programs that fit weights.
func Reorder(candidates []Candidate, weights [NumFeatures]float64, sharpness float64) []Candidate {
	ranked := slices.Clone(candidates)
	for i := range ranked {
		ranked[i].Score = 0
		for f, x := range ranked[i].Features {
			ranked[i].Score += float64(weights[f] * x)
		}
		ranked[i].Score = max(0, ranked[i].Score)
	}
	slices.SortFunc(ranked, func(a, b Candidate) int {
		return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.Item().ID(), b.Item().ID()))
	})
	setConfidence(ranked, sharpness)
	return ranked
}

// shareAmong is among how many of the first a candidate has its share.
const shareAmong = 20

// maxOdds bounds the logarithm of odds.
const maxOdds = 6

// setConfidence sets the confidence in candidates that are in order. A candidate without
// a feature has no share.
func setConfidence(ranked []Candidate, sharpness float64) {
	if len(ranked) == 0 || ranked[0].Score == 0 {
		return
	}
	best := ranked[0].Score
	all := 0.0
	for i := range ranked[:min(len(ranked), shareAmong)] {
		all += math.Exp(float64(sharpness * (ranked[i].Score - best)))
	}
	for i := range ranked {
		c := &ranked[i]
		c.Evidence[ScoreEvidence] = c.Score
		own := math.Exp(float64(sharpness * (c.Score - best)))
		c.Evidence[ShareEvidence] = max(-maxOdds, min(maxOdds, math.Log(own/max(all-own, 1e-9))))
		c.Confidence = 0
		if slices.Max(c.Features[:]) > 0 {
			c.Confidence = calibrated(c)
		}
		if i > 0 {
			c.Confidence = min(c.Confidence, ranked[i-1].Confidence)
		}
	}
}

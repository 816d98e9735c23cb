package rank

import (
	"math"
)

// Evidence is what the confidence depends on besides the features of a candidate.
type Evidence int

const (
	ShareEvidence  Evidence = iota // the logarithm of the odds for it among the first, by their scores
	CrowdEvidence                  // logarithm of how many there are to choose from
	LengthEvidence                 // logarithm of how many words the task has
	NumEvidence
)

// Thresholds of the confidence in the first candidate.
const (
	DefaultFindThreshold = 0.5 // from it on, an answer is sure unless the next tool is as likely
	LikelyToo            = 0.8 // how near to it, as a part, the confidence in the next tool makes an answer unsure
	AbstainBelow         = 0.1 // below it, nothing is an answer
)

// A learned is fitted to tasks with known tools by tools/train.
type learned struct {
	weights   [NumFeatures]float64 // of the features, in the score
	sharpness float64              // makes logarithms of odds of differences of scores
	fitness   weights              // the odds that the catalog has the tool that the task needs
	rightness weights              // the odds for a candidate to be right if it has
}

// weights make the logarithm of odds of evidence and features.
type weights struct {
	bias     float64
	evidence [NumEvidence]float64
	features [NumFeatures]float64
}

func (w *weights) weigh(c *Candidate) float64 {
	sum := w.bias + scored(&c.Features, &w.features)
	for i, x := range c.Evidence {
		sum += float64(w.evidence[i] * x) // the conversion keeps compilers from fusing
	}
	return sum
}

// calibrated returns the confidence in a candidate: the probability that anything fits the task, times the
// probability that the candidate is right if so.
func calibrated(c *Candidate) float64 {
	return 1 / ((1 + math.Exp(-fitted.fitness.weigh(c))) * (1 + math.Exp(-fitted.rightness.weigh(c))))
}

// situation returns the evidence that is the same for all candidates.
func (s *scorer) situation(crowd int) (e [NumEvidence]float64) {
	e[CrowdEvidence] = math.Log(float64(1 + crowd))
	e[LengthEvidence] = math.Log(float64(1 + len(s.task.Words)))
	return e
}

const (
	shareAmong = 20 // of the first candidates
	maxOdds    = 6  // bounds the logarithm of odds
)

// setConfidence sets the evidence and the confidence of candidates that are in order.
func setConfidence(ranked []Candidate, situation [NumEvidence]float64, sharpness float64) {
	all := 0.0
	for i := range ranked[:min(len(ranked), shareAmong)] {
		all += math.Exp(float64(sharpness * (ranked[i].Score - ranked[0].Score)))
	}
	for i := range ranked {
		c := &ranked[i]
		own := math.Exp(float64(sharpness * (c.Score - ranked[0].Score)))
		c.Evidence = situation
		c.Evidence[ShareEvidence] = max(-maxOdds, min(maxOdds, math.Log(own/max(all-own, 1e-9))))
		c.Confidence = 0
		if c.Features != [NumFeatures]float64{} {
			c.Confidence = calibrated(c)
		}
		if i > 0 {
			c.Confidence = min(c.Confidence, ranked[i-1].Confidence)
		}
	}
}

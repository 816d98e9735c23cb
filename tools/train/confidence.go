package main

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/mcp-metarouter/metarouter/selector"
)

const (
	numFeatures = len(selector.Candidate{}.Features)
	numEvidence = len(selector.Candidate{}.Evidence)
)

// confidenceOf returns the confidence that the program has in the candidate.
func confidenceOf(c selector.Candidate) float64 { return c.Confidence }

// A verdict is a candidate's signs and whether it was right.
type verdict struct {
	signs  [numEvidence]float64
	right  float64 // 1 if it was
	weight float64
	best   bool // the first of its query
	match  bool // there was a right one
}

const (
	judgedCandidates = 5
	otherWeight      = 0.2  // of a candidate that is not the first
	vainWeight       = 0.33 // of queries with nothing right, for telling them apart
	vainShare        = 0.1  // of them, for the confidence
)

// verdicts gathers those of queries with and without the servers that they need.
// Each corpus weighs the same.
func verdicts(corpora []*corpus, with, without map[*corpus][]sighting) (all []verdict) {
	for _, c := range corpora {
		if c.name == smallest {
			continue
		}
		for match, seen := range map[bool][]sighting{true: with[c], false: without[c]} {
			for _, s := range seen {
				for i, candidate := range s.found[:min(len(s.found), judgedCandidates)] {
					v := verdict{signs: candidate.Evidence, weight: 1 / float64(len(seen)), best: i == 0, match: match}
					if match && s.query.Score(candidate.IDs()).MRR > 0 {
						v.right = 1
					}
					if i > 0 {
						v.weight *= otherWeight
					}
					all = append(all, v)
				}
			}
		}
	}
	slices.SortFunc(all, func(a, b verdict) int { // maps have no order
		return cmp.Or(slices.Compare(a.signs[:], b.signs[:]), cmp.Compare(a.weight, b.weight), cmp.Compare(a.right, b.right))
	})
	return all
}

// logistic fits weights of signs, the bias last, by Newton's method with a small
// ridge.
func logistic(all []verdict) [numEvidence + 1]float64 {
	const n = numEvidence + 1
	var w [n]float64
	for range 30 {
		var gradient [n]float64
		var hessian [n][n]float64
		for _, v := range all {
			x := inputs(v)
			sum := 0.0
			for i := range x {
				sum += w[i] * x[i]
			}
			p := 1 / (1 + math.Exp(-sum))
			weight := v.weight
			if !v.match {
				weight *= vainWeight
			}
			for i := range x {
				gradient[i] += weight * (v.right - p) * x[i]
				for j := range x {
					hessian[i][j] += weight * p * (1 - p) * x[i] * x[j]
				}
			}
		}
		for i := range n {
			gradient[i] -= 1e-3 * w[i]
			hessian[i][i] += 1e-3
		}
		step := solve(hessian, gradient)
		for i := range w {
			w[i] += step[i]
		}
	}
	return w
}

func inputs(v verdict) (x [numEvidence + 1]float64) {
	copy(x[:], v.signs[:])
	x[numEvidence] = 1
	return x
}

// solve solves a system of equations by elimination.
func solve(a [numEvidence + 1][numEvidence + 1]float64, b [numEvidence + 1]float64) (x [numEvidence + 1]float64) {
	n := len(b)
	for i := range n {
		pivot := i
		for r := i; r < n; r++ {
			if math.Abs(a[r][i]) > math.Abs(a[pivot][i]) {
				pivot = r
			}
		}
		a[i], a[pivot], b[i], b[pivot] = a[pivot], a[i], b[pivot], b[i]
		for r := i + 1; r < n; r++ {
			f := a[r][i] / a[i][i]
			for k := i; k < n; k++ {
				a[r][k] -= f * a[i][k]
			}
			b[r] -= f * b[i]
		}
	}
	for i := n - 1; i >= 0; i-- {
		x[i] = b[i]
		for k := i + 1; k < n; k++ {
			x[i] -= a[i][k] * x[k]
		}
		x[i] /= a[i][i]
	}
	return x
}

// answerable fits weights of the best candidate's signs for whether a right tool
// is among the first, as it is not where the servers that are needed are missing.
func answerable(corpora []*corpus, kinds []judged) [numEvidence + 1]float64 {
	var all []verdict
	for _, k := range kinds {
		for _, c := range corpora {
			if c.name == smallest {
				continue
			}
			for _, s := range k.with[c] {
				if len(s.found) > 0 && s.scores.Recall5 > 0 {
					all = append(all, verdict{signs: s.found[0].Evidence, right: 1, weight: 1 / float64(len(k.with[c])), match: true})
				}
			}
			for _, s := range k.without[c] {
				if len(s.found) > 0 {
					all = append(all, verdict{signs: s.found[0].Evidence, weight: 1 / float64(len(k.without[c])), match: true})
				}
			}
		}
	}
	return logistic(all)
}

// calibrate finds the confidence that belongs to a sum of signs: the share of the
// best candidates with that sum that were right, made never to fall (the pool of
// adjacent violators) and read off at the knots.
func calibrate(all []verdict, sum func(verdict) float64, least, step float64, knots int) []float64 {
	type block struct{ from, right, weight float64 }
	var best []verdict
	for _, v := range all {
		if v.best {
			best = append(best, v)
		}
	}
	slices.SortStableFunc(best, func(a, b verdict) int { return cmp.Compare(sum(a), sum(b)) })
	var blocks []block
	for _, v := range best {
		weight := v.weight
		if !v.match {
			weight *= vainShare
		}
		blocks = append(blocks, block{sum(v), v.right * weight, weight})
		for n := len(blocks); n > 1 && blocks[n-2].right/blocks[n-2].weight >= blocks[n-1].right/blocks[n-1].weight; n-- {
			blocks[n-2].right += blocks[n-1].right
			blocks[n-2].weight += blocks[n-1].weight
			blocks = blocks[:n-1]
		}
	}
	confidences := make([]float64, knots)
	for k := range confidences {
		// The mean of what is around the knot, so that one block does not decide.
		total, n := 0.0, 0.0
		for d := -1.0; d <= 1; d += 0.1 {
			at := least + (float64(k)+d/2)*step
			i := 0
			for i+1 < len(blocks) && blocks[i+1].from <= at {
				i++
			}
			total += blocks[i].right / blocks[i].weight
			n++
		}
		confidences[k] = math.Round(min(0.98, max(0.01, total/n))*1000) / 1000
	}
	return confidences
}

// reliability prints how often the best candidates were right beside how confident
// the selector was, by corpus and overall.
func reliability(title string, corpora []*corpus, with map[*corpus][]sighting, belief func(selector.Candidate) float64) {
	fmt.Printf("%s: expected calibration error by corpus, and shares by confidence\n", title)
	var bins [10]struct{ weight, confidence, right float64 }
	total := 0.0
	for _, c := range corpora {
		if c.name == smallest {
			continue
		}
		var own [10]struct{ weight, confidence, right float64 }
		for _, s := range with[c] {
			weight := 1 / float64(len(with[c]))
			p, right := 0.0, 0.0
			if len(s.found) > 0 {
				p = belief(s.found[0])
				if s.scores.MRR == 1 {
					right = 1
				}
			}
			i := min(9, int(p*10))
			for _, b := range []*struct{ weight, confidence, right float64 }{&own[i], &bins[i]} {
				b.weight += weight
				b.confidence += weight * p
				b.right += weight * right
			}
		}
		total++
		fmt.Printf("  %-16s %.3f\n", c.name, calibrationError(own[:]))
	}
	for i, b := range bins {
		if b.weight > 0 {
			fmt.Printf("  %.1f–%.1f: %5.1f%% of the queries, confidence %.3f, right %.3f\n", float64(i)/10, float64(i+1)/10, 100*b.weight/total, b.confidence/b.weight, b.right/b.weight)
		}
	}
	fmt.Printf("  all: %.3f\n", calibrationError(bins[:]))
}

// abstaining prints what it does to refuse tasks whose best candidate is believed
// in less than some thresholds.
func abstaining(corpora []*corpus, with, without map[*corpus][]sighting, belief func(selector.Candidate) float64) {
	for _, threshold := range []float64{0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5} {
		caught, vain, lost, lostRight, fine := 0.0, 0.0, 0.0, 0.0, 0.0
		for _, c := range corpora {
			if c.name == smallest {
				continue
			}
			for _, s := range without[c] {
				vain += 1 / float64(len(without[c]))
				if refused(s.found, belief, threshold) {
					caught += 1 / float64(len(without[c]))
				}
			}
			for _, s := range with[c] {
				fine += 1 / float64(len(with[c]))
				if refused(s.found, belief, threshold) {
					lost += 1 / float64(len(with[c]))
					if s.scores.Recall5 > 0 {
						lostRight += 1 / float64(len(with[c]))
					}
				}
			}
		}
		fmt.Printf("  abstaining below %.2f: precision %.3f, recall %.3f; of tasks with a tool %.3f are refused, %.3f though it is among the first five\n",
			threshold, caught/(caught+lost), caught/vain, lost/fine, lostRight/fine)
	}
}

// refused reports whether the selector abstains.
func refused(found []selector.Candidate, belief func(selector.Candidate) float64, threshold float64) bool {
	return len(found) == 0 || belief(found[0]) < threshold
}

func calibrationError(bins []struct{ weight, confidence, right float64 }) float64 {
	total, off := 0.0, 0.0
	for _, b := range bins {
		total += b.weight
		off += math.Abs(b.confidence - b.right)
	}
	return off / total
}

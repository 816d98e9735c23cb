package main

import (
	"math"

	"github.com/mcp-metarouter/metarouter/selector"
)

// numInputs is how many numbers the confidence is made of: evidence, features, and 1.
const numInputs = numEvidence + numFeatures + 1

type inputs = [numInputs]float64

func inputsOf(c *selector.Candidate) (x inputs) {
	copy(x[:], c.Evidence[:])
	copy(x[numEvidence:], c.Features[:])
	x[numInputs-1] = 1
	return x
}

// A verdict is the inputs of a task's first candidate, and whether it was right.
type verdict struct {
	x           inputs
	right, fits float64 // 1 if it was right; 1 if the catalog has a tool for the task
	weight      float64 // of a task with a tool; see vainWeight
}

// vainWeight is how much tasks without a tool weigh together, for 1 of all sources together. They decide what
// is refused.
const vainWeight = 0.42

// naturalShare is how much a source of natural tasks weighs in comparison with another source: they are what
// the confidence is for.
const naturalShare = 4

// share returns the weight of all tasks of a source together.
func share(source string) float64 {
	switch source {
	case "sentence", "short", "keyword", "paraphrase", stepKind:
		return naturalShare
	}
	return 1
}

// verdicts returns the verdicts of the samples but for one source.
func verdicts(all []sample, without string) (some []verdict) {
	counts, vain := make(map[string]float64), 0.0
	for i := range all {
		if s := &all[i]; usable(s, without) && s.Vain {
			vain++
		} else if usable(s, without) {
			counts[s.Source]++
		}
	}
	total := 0.0
	for source := range counts {
		total += share(source)
	}
	for i := range all {
		s := &all[i]
		if !usable(s, without) {
			continue
		}
		v := verdict{x: inputsOf(&s.Found[0]), weight: vainWeight / vain}
		if !s.Vain {
			v.fits, v.weight = 1, share(s.Source)/counts[s.Source]/total
			if s.Query.Score(s.Found[0].IDs()).MRR > 0 {
				v.right = 1
			}
		}
		some = append(some, v)
	}
	return some
}

func usable(s *sample, without string) bool { return !shared(s.Source, without) && len(s.Found) > 0 }

// A judgement is the weights of inputs: for whether the catalog has a tool for the task, and whether the first
// candidate is right if it has.
type judgement struct{ fitness, rightness inputs }

func judge(some []verdict) (j judgement) {
	j.fitness = logistic(some, func(v *verdict) (weight, target float64) { return v.weight, v.fits })
	j.rightness = logistic(some, func(v *verdict) (weight, target float64) { return v.weight * v.fits, v.right })
	return j
}

// confidence is as in package rank.
func (j *judgement) confidence(c *selector.Candidate) float64 {
	x := inputsOf(c)
	return 1 / ((1 + math.Exp(-sumOf(&j.fitness, &x))) * (1 + math.Exp(-sumOf(&j.rightness, &x))))
}

// hold is how strongly the weights of inputs are held back, in proportion to their spread.
const hold = 3e-3

// logistic fits the weights of inputs to the verdicts, by Newton's method.
func logistic(all []verdict, of func(v *verdict) (weight, target float64)) (w inputs) {
	var spread inputs
	for k := range all {
		weight, _ := of(&all[k])
		for i, x := range all[k].x {
			spread[i] += weight * x * x
		}
	}
	for range 12 {
		var gradient inputs
		var hessian [numInputs]inputs
		for k := range all {
			v := &all[k]
			weight, target := of(v)
			p := 1 / (1 + math.Exp(-sumOf(&w, &v.x)))
			off, curve := weight*(target-p), weight*p*(1-p)
			for i, x := range v.x {
				gradient[i] += off * x
				for k, y := range v.x {
					hessian[i][k] += curve * x * y
				}
			}
		}
		for i := range w {
			held := hold*spread[i] + 1e-9
			if i == numInputs-1 {
				held = 1e-9
			}
			gradient[i] -= held * w[i]
			hessian[i][i] += held
		}
		for i, step := range solve(hessian, gradient) {
			w[i] += step
		}
	}
	return w
}

func sumOf(w, x *inputs) (sum float64) {
	for i := range w {
		sum += w[i] * x[i]
	}
	return sum
}

// solve solves a system of equations with a positive definite matrix by elimination.
func solve(a [numInputs]inputs, b inputs) (x inputs) {
	for i := range a {
		for r := i + 1; r < numInputs; r++ {
			f := a[r][i] / a[i][i]
			for k := i; k < numInputs; k++ {
				a[r][k] -= f * a[i][k]
			}
			b[r] -= f * b[i]
		}
	}
	for i := numInputs - 1; i >= 0; i-- {
		x[i] = b[i]
		for k := i + 1; k < numInputs; k++ {
			x[i] -= a[i][k] * x[k]
		}
		x[i] /= a[i][i]
	}
	return x
}

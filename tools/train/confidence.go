package main

import (
	"cmp"
	"math"
	"slices"
)

// numInputs is how many numbers the confidence is made of: evidence, features, and 1.
const numInputs = numEvidence + numFeatures + 1

type inputs = [numInputs]float64

// A verdict is a candidate's inputs and whether it was right.
type verdict struct {
	x                   inputs
	right               float64 // 1 if it was
	fits                float64 // 1 if the catalog has a tool for the task
	weight              float64
	first               bool // of its task
	origin, group, kind string
	sum                 float64 // of the inputs, by weights that were fitted without the group
	confidence          float64 // likewise
}

const (
	judgedCandidates = 4
	otherWeight      = 0.1 // of a candidate that is not the first
	vainFit          = 3   // for the weights, how much more tasks without a tool count
)

// verdicts returns those of the first candidates.
func verdicts(all []sample) (some []verdict) {
	for _, s := range all {
		for i, c := range s.found[:min(len(s.found), judgedCandidates)] {
			v := verdict{weight: s.weight, first: i == 0, origin: s.origin, group: s.group, kind: s.kind}
			copy(v.x[:], c.Evidence[:])
			copy(v.x[numEvidence:], c.Features[:])
			v.x[numInputs-1] = 1
			if s.kind != kindNone && s.query.Score(c.IDs()).MRR > 0 {
				v.right = 1
			}
			if s.kind != kindNone {
				v.fits = 1
			}
			if i > 0 {
				v.weight *= otherWeight
			}
			some = append(some, v)
		}
	}
	return some
}

// confidenceRidge holds weights back, in proportion to the weight of all verdicts.
const confidenceRidge = 3e-4

// An aim is what inputs are weighed for: which verdicts say something about it, with what
// weight, and what they say.
type aim func(v *verdict) (weight, target float64)

// fitness is whether the catalog has a tool for the task; rightness is whether a candidate is
// right if it has.
func fitness(v *verdict) (weight, target float64) {
	switch {
	case !v.first:
		return 0, 0
	case v.fits == 0:
		return v.weight * vainFit, 0
	}
	return v.weight, 1
}

func rightness(v *verdict) (weight, target float64) { return v.weight * v.fits, v.right }

// logistic fits the weights of inputs to verdicts that are not of the group, by Newton's
// method. Inputs that use does not name have none.
func (of aim) logistic(all []verdict, without string, use []int) (w inputs) {
	n := len(use)
	var spread inputs
	for k := range all {
		weight, _ := of(&all[k])
		for i, x := range all[k].x {
			spread[i] += weight * x * x
		}
	}
	for range 10 {
		gradient, hessian := make([]float64, n), make([][]float64, n)
		for i := range hessian {
			hessian[i] = make([]float64, n)
		}
		for k := range all {
			v := &all[k]
			weight, target := of(v)
			if v.group == without || weight == 0 {
				continue
			}
			p := 1 / (1 + math.Exp(-sumOf(&w, &v.x)))
			off, curve := weight*(target-p), weight*p*(1-p)
			for a, i := range use {
				gradient[a] += off * v.x[i]
				for b, j := range use[:a+1] {
					hessian[a][b] += curve * v.x[i] * v.x[j]
				}
			}
		}
		for a, i := range use {
			for b := range a {
				hessian[b][a] = hessian[a][b]
			}
			hold := confidenceRidge*spread[i] + 1e-9
			gradient[a] -= hold * w[i]
			hessian[a][a] += hold
		}
		for a, step := range solve(hessian, gradient) {
			w[use[a]] += step
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

// solve solves a system of equations by elimination. It changes both sides.
func solve(a [][]float64, b []float64) []float64 {
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
	x := make([]float64, n)
	for i := n - 1; i >= 0; i-- {
		x[i] = b[i]
		for k := i + 1; k < n; k++ {
			x[i] -= a[i][k] * x[k]
		}
		x[i] /= a[i][i]
	}
	return x
}

// The sums of inputs that get a confidence; as in package rank.
const (
	leastSum = -6.0
	sumStep  = 0.5
	numKnots = 21
)

// calibrate finds the confidence that belongs to a sum of inputs: the share of the first
// candidates with that sum that were right, made never to fall (the pool of adjacent
// violators) and read off at the knots. It leaves the group out.
func calibrate(all []verdict, without string) (knots [numKnots]float64) {
	type block struct{ from, right, weight float64 }
	var firsts []verdict
	for _, v := range all {
		if v.first && v.group != without {
			firsts = append(firsts, v)
		}
	}
	slices.SortStableFunc(firsts, func(a, b verdict) int { return cmp.Compare(a.sum, b.sum) })
	var blocks []block
	for _, v := range firsts {
		// A prior from the sum itself keeps small blocks from the extremes.
		blocks = append(blocks, block{v.sum, v.right * v.weight, v.weight})
		for n := len(blocks); n > 1 && blocks[n-2].right/blocks[n-2].weight >= blocks[n-1].right/blocks[n-1].weight; n-- {
			blocks[n-2].right += blocks[n-1].right
			blocks[n-2].weight += blocks[n-1].weight
			blocks = blocks[:n-1]
		}
	}
	for k := range knots {
		// The mean of what is around the knot, so that one block does not decide.
		total, n := 0.0, 0.0
		for d := -1.0; d <= 1; d += 0.1 {
			at := leastSum + (float64(k)+d/2)*sumStep
			i := 0
			for i+1 < len(blocks) && blocks[i+1].from <= at {
				i++
			}
			total += blocks[i].right / blocks[i].weight
			n++
		}
		knots[k] = math.Round(min(0.98, max(0.01, total/n))*1000) / 1000
	}
	return knots
}

// interpolated returns the confidence that a sum of inputs has.
func interpolated(knots [numKnots]float64, sum float64) float64 {
	at := min(max(0, (sum-leastSum)/sumStep), numKnots-1)
	i := min(int(at), numKnots-2)
	return knots[i] + (knots[i+1]-knots[i])*(at-float64(i))
}

// A judgement is the weights of inputs, and the confidences that sums have.
type judgement struct {
	fitness, rightness inputs
	knots              [numKnots]float64
}

// fitted fits the weights to verdicts that are not of the group.
func fitted(all []verdict, without string, use []int) (j judgement) {
	return judgement{fitness: aim(fitness).logistic(all, without, use), rightness: aim(rightness).logistic(all, without, use)}
}

// sum is the logarithm of the odds of both.
func (j *judgement) sum(x *inputs) float64 {
	a, b := math.Exp(-sumOf(&j.fitness, x)), math.Exp(-sumOf(&j.rightness, x))
	return -math.Log(a + b + a*b)
}

// judge fits the confidence to the verdicts. Their own sum and confidence are those of fits
// without their group.
func judge(all []verdict, use []int) judgement {
	whole := fitted(all, "", use)
	fits := make(map[string]*judgement)
	for i := range all {
		v := &all[i]
		if fits[v.group] == nil {
			j := whole
			if v.origin != fromSynthetic {
				j = fitted(all, v.group, use)
			}
			fits[v.group] = &j
		}
		v.sum = fits[v.group].sum(&v.x)
	}
	whole.knots = calibrate(all, "")
	for group, j := range fits {
		j.knots = calibrate(all, group)
	}
	for i := range all {
		v := &all[i]
		v.confidence = interpolated(fits[v.group].knots, v.sum)
	}
	return whole
}

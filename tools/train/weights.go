package main

import (
	"math"
	"slices"

	"github.com/mcp-metarouter/metarouter/selector"
)

const (
	numFeatures = len(selector.Candidate{}.Features)
	numEvidence = len(selector.Candidate{}.Evidence)
)

type features = [numFeatures]float64

// The names of features and of evidence in package rank, in its order.
var (
	featureNames  = [numFeatures]string{"WordsFeature", "MeaningFeature", "StepMeaningFeature", "ArgumentFeature"}
	evidenceNames = [numEvidence]string{"ShareEvidence", "CrowdEvidence", "LengthEvidence"}
)

// argumentFeature is not fitted: the tasks have no arguments.
const argumentFeature = numFeatures - 1

// A listing is a sample as the weights of features are fitted to it.
type listing struct {
	x      []features
	need   []int // of each candidate: the number of the need that it meets, −1 if it is wrong
	needs  int   // that any candidate meets
	weight float64
}

// listings leaves out samples without a right candidate. All together have the weight 1.
func listings(all []sample) (some []listing) {
	for _, s := range all {
		var l listing
		numbers := make(map[string]int)
		for _, c := range s.Found {
			need := -1
			for _, r := range s.Query.Relevant {
				if slices.Contains(c.IDs(), r.Server+":"+r.Name) {
					key := r.Alternative
					if key == "" {
						key = c.Tool.ID
					}
					if _, ok := numbers[key]; !ok {
						numbers[key] = len(numbers)
					}
					need = numbers[key]
				}
			}
			l.x, l.need = append(l.x, c.Features), append(l.need, need)
		}
		if l.needs = len(numbers); l.needs > 0 {
			some = append(some, l)
		}
	}
	for i := range some {
		some[i].weight = 1 / float64(len(some))
	}
	return some
}

// gradient adds the gradient of the loss with the weights: for each need, minus the logarithm of the
// probability of the tools that meet it against all wrong ones.
func (l *listing) gradient(w, to *features) {
	exps, most := make([]float64, len(l.x)), math.Inf(-1)
	for i := range l.x {
		exps[i] = weighed(w, &l.x[i])
		most = max(most, exps[i])
	}
	sums := make([]float64, l.needs)
	wrong := 0.0
	for i, x := range exps {
		exps[i] = math.Exp(x - most)
		if l.need[i] < 0 {
			wrong += exps[i]
		} else {
			sums[l.need[i]] += exps[i]
		}
	}
	share := l.weight / float64(l.needs)
	ofWrong := 0.0 // the sum over needs of 1/(sum+wrong)
	for _, sum := range sums {
		ofWrong += 1 / (sum + wrong)
	}
	for i, e := range exps {
		by := e * ofWrong
		if n := l.need[i]; n >= 0 {
			by = e/(sums[n]+wrong) - e/(sums[n]+1e-300)
		}
		if by *= share; by != 0 {
			for f, x := range l.x[i] {
				to[f] += by * x
			}
		}
	}
}

func weighed(w, x *features) (sum float64) {
	for i := range w {
		sum += w[i] * x[i]
	}
	return sum
}

const (
	fitSteps = 150
	fitRate  = 0.3
	ridge    = 2e-4
)

// fitWeights finds the weights of the features, at least 0, by gradient descent (Adam). All others are 0.
func fitWeights(some []listing, use []int) (w features) {
	total := 0.0
	for i := range some {
		total += some[i].weight
	}
	var mean, square features
	for step := 1; step <= fitSteps; step++ {
		var g features
		for i := range some {
			some[i].gradient(&w, &g)
		}
		rate := fitRate * min(1, 2*float64(fitSteps-step)/fitSteps)
		for _, i := range use {
			slope := g[i]/total + 2*ridge*w[i]
			mean[i] = 0.9*mean[i] + 0.1*slope
			square[i] = 0.99*square[i] + 0.01*slope*slope
			m, v := mean[i]/(1-math.Pow(0.9, float64(step))), square[i]/(1-math.Pow(0.99, float64(step)))
			w[i] = max(0, w[i]-rate*m/(math.Sqrt(v)+1e-9))
		}
	}
	return w
}

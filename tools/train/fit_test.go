package main

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// Right tools have more of the feature 0 and less of a penalty; all else is chance.
func TestFit(t *testing.T) {
	f := &fitter{still: []int{1}, penalties: []int{2}}
	random := rand.New(rand.NewPCG(1, 1))
	var some []listing
	for range 300 {
		l := listing{weight: 1, needs: 1}
		for i := range 8 {
			x := features{random.Float64(), random.Float64(), random.Float64(), random.Float64()}
			need := -1
			if i == 0 {
				need = 0
				x[0], x[2] = x[0]+0.5, x[2]/2
			}
			l.x, l.need = append(l.x, x), append(l.need, need)
		}
		some = append(some, l)
	}
	w := f.fit(some, features{1, 1, -1, 1})
	if w[0] < 1 || w[1] != 0 || w[2] > -1 || w[3] < 0 || w[3] > w[0]/4 {
		t.Errorf("weights %.2f", w)
	}
	if without := f.fit(some, w, 0); without[0] != 0 {
		t.Errorf("a feature that is left out has the weight %v", without[0])
	}
}

// The probability that a first candidate is right grows with its input 0; half of
// the tasks have no tool if the input 1 is 0.
func TestJudge(t *testing.T) {
	random := rand.New(rand.NewPCG(2, 2))
	var all []verdict
	for i := range 6000 {
		v := verdict{weight: 1, first: true, fits: 1, origin: fromNatural, group: string(rune('a' + i%3)), kind: "short"}
		v.x[0], v.x[1], v.x[numInputs-1] = random.Float64(), float64(random.IntN(2)), 1
		if v.x[1] == 0 && random.IntN(2) == 0 {
			v.fits, v.kind = 0, kindNone
		}
		if v.fits == 1 && random.Float64() < v.x[0] {
			v.right = 1
		}
		all = append(all, v)
	}
	j := judge(all, []int{0, 1, numInputs - 1})
	if !slices.IsSorted(j.knots[:]) {
		t.Errorf("confidences %v fall", j.knots)
	}
	if e := calibrationError(slices.Clone(all)); e > 0.03 {
		t.Errorf("calibration error %.3f", e)
	}
	low, high := inputs{0: 0.5, 1: 0, numInputs - 1: 1}, inputs{0: 0.5, 1: 1, numInputs - 1: 1}
	if a, b := interpolated(j.knots, j.sum(&low)), interpolated(j.knots, j.sum(&high)); math.Abs(a-0.25) > 0.08 || math.Abs(b-0.5) > 0.08 {
		t.Errorf("confidences %.2f and %.2f, want about 0.25 and 0.50", a, b)
	}
}

func TestBalance(t *testing.T) {
	all := []sample{
		{origin: fromNatural, group: "a", kind: "sentence"}, {origin: fromNatural, group: "a", kind: "short"}, {origin: fromNatural, group: "a", kind: "short"},
		{origin: fromNatural, group: "a", kind: kindNone}, {origin: fromNatural, group: "b", kind: "short"},
	}
	balance(all)
	sum := 0.0
	for _, s := range all {
		if s.kind != kindNone {
			sum += s.weight
		}
	}
	if math.Abs(sum-shares[fromNatural]) > 1e-12 || all[4].weight != sum/2 || all[0].weight != 4*all[1].weight || math.Abs(all[3].weight-sum/2/9) > 1e-12 {
		t.Errorf("weights %+v", all)
	}
}

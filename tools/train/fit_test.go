package main

import (
	"math"
	"testing"

	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/selector"
)

// Right tools have more of the feature 0; all else is chance.
func TestFitWeights(t *testing.T) {
	random := seeded(1)
	var some []listing
	for range 300 {
		l := listing{weight: 1, needs: 1}
		for i := range 8 {
			x := features{random.Float64(), random.Float64(), random.Float64()}
			need := -1
			if i == 0 {
				need = 0
				x[0] += 0.5
			}
			l.x, l.need = append(l.x, x), append(l.need, need)
		}
		some = append(some, l)
	}
	w := fitWeights(some, []int{0, 1})
	if w[0] < 1 || w[1] < 0 || w[1] > w[0]/4 || w[2] != 0 {
		t.Errorf("weights %.2f", w)
	}
}

// The probability that a first candidate is right grows with its input 0; half of the tasks have no tool if
// the input 1 is 0.
func TestJudge(t *testing.T) {
	random := seeded(2)
	var all []verdict
	for range 6000 {
		v := verdict{weight: 1, fits: 1}
		v.x[0], v.x[1], v.x[numInputs-1] = 4*random.Float64()-2, float64(random.IntN(2)), 1
		if v.x[1] == 0 && random.IntN(2) == 0 {
			v.fits = 0
		}
		if v.fits == 1 && random.Float64() < 1/(1+math.Exp(-v.x[0])) {
			v.right = 1
		}
		all = append(all, v)
	}
	j := judge(all)
	of := func(a, b float64) float64 {
		x := inputs{0: a, 1: b, numInputs - 1: 1}
		return 1 / ((1 + math.Exp(-sumOf(&j.fitness, &x))) * (1 + math.Exp(-sumOf(&j.rightness, &x))))
	}
	if low, high := of(0, 0), of(0, 1); math.Abs(low-0.25) > 0.05 || math.Abs(high-0.5) > 0.05 {
		t.Errorf("confidences %.2f and %.2f, want about 0.25 and 0.50", low, high)
	}
}

// Each source has its share, whatever the number of its tasks.
func TestVerdicts(t *testing.T) {
	var all []sample
	for _, source := range []string{"short", "apis", "apis", "apis", "large", "mcpbench"} {
		all = append(all, sample{Source: source, Found: []selector.Candidate{{Tool: &registry.NormalizedTool{ID: "a:b"}}}})
	}
	all = append(all, sample{Source: noTool, Vain: true, Found: []selector.Candidate{{Tool: &registry.NormalizedTool{ID: "a:b"}}}})
	sums := map[float64]int{}
	for _, v := range verdicts(all, "large") { // which has the queries of mcpbench
		sums[math.Round(1000*v.weight)]++
	}
	if sums[800] != 1 || sums[67] != 3 || sums[1000*vainWeight] != 1 || len(sums) != 3 {
		t.Errorf("weights %v", sums)
	}
}

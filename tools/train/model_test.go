package main

import (
	"math"
	"math/rand/v2"
	"testing"
)

// tinyWorld is words in groups of three that mean the same, and pairs of them.
func tinyWorld(random *rand.Rand) (start [][]float32, weight []float32, pairs []pair) {
	const words, dim = 30, 8
	for range words {
		v := make([]float32, dim)
		for k := range v {
			v[k] = float32(random.NormFloat64())
		}
		start = append(start, v)
		weight = append(weight, 0)
	}
	for i := range 10 {
		a, b, c := int32(3*i), int32(3*i+1), int32(3*i+2)
		pairs = append(pairs, pair{
			task: []counted{{a, 1}, {c, 2}}, tool: text{{{b, 1}}, {{c, 1}, {(c + 3) % words, 1}}}, id: i,
			hard: text{{{(a + 5) % words, 1}}, nil}, other: 100 + i, weight: 1 + float32(i%3), group: -1,
		})
	}
	return start, weight, pairs
}

// loss is that of a batch, without learning from it.
func (m *model) loss(batch []pair) float64 {
	for i := range m.weight {
		m.rescale(i)
	}
	loss, _ := m.forward(batch)
	return loss
}

func tinyModel(start [][]float32, weight []float32) *model {
	return newModel(start, weight, 2, tuning{Rate: 2e-3, WeightRate: 4e-3, Hold: 1e-4, TurnRate: 1e-3})
}

func TestLearning(t *testing.T) {
	start, weight, pairs := tinyWorld(rand.New(rand.NewPCG(1, 1)))
	m := tinyModel(start, weight)
	before := m.loss(pairs)
	for range 200 {
		m.learn(pairs, 1)
	}
	if after := m.loss(pairs); after > before/10 {
		t.Errorf("the loss was %v and is %v", before, after)
	}
}

// The first step of Adam goes against the sign of each gradient, so the gradients
// are compared with differences of the loss by their signs.
func TestGradients(t *testing.T) {
	start, weight, pairs := tinyWorld(rand.New(rand.NewPCG(2, 2)))
	m := tinyModel(start, weight)
	m.sharp = 1
	stepped := tinyModel(start, weight)
	stepped.sharp = 1
	stepped.learn(pairs, 1)
	checked, wrong := 0, 0
	compare := func(what string, p, after *float32) {
		const h = 1e-2
		at := *p
		*p = at + h
		up := m.loss(pairs)
		*p = at - h
		down := m.loss(pairs)
		*p = at
		slope := (up - down) / (2 * h)
		if math.Abs(slope) < 2e-3 {
			return
		}
		checked++
		if (slope > 0) != (*after < at) {
			wrong++
			t.Errorf("%s: the loss has the slope %v, and the step was %v", what, slope, *after-at)
		}
	}
	for w := range m.weight {
		for k := range m.dim {
			compare("a vector", &m.of(m.vector, w)[k], &stepped.of(stepped.vector, w)[k])
		}
		compare("a weight", &m.weight[w], &stepped.weight[w])
		compare("a weight in tasks", &m.asked[w], &stepped.asked[w])
	}
	for k := range m.turn {
		compare("the matrix", &m.turn[k], &stepped.turn[k])
	}
	for f := range m.fields {
		compare("a field", &m.fields[f], &stepped.fields[f])
	}
	compare("the sharpness", &m.sharp, &stepped.sharp)
	if checked < 100 {
		t.Errorf("only %d slopes were checked", checked)
	}
}

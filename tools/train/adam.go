package main

import (
	"math"
	"runtime"
	"sync"
)

const (
	otherWay   = 0.3 // weight of the loss of tools that must point to their tasks
	sharedRate = 1e-2
)

// An adam changes the parameters of a model step by step (Kingma and Ba 2015), those of
// words only in batches in which they occur.
type adam struct {
	step             int
	turn1, turn2     []float32
	vector1, vector2 []float32 // means of gradients and of their squares
	word1, word2     []float32 // likewise of weight and asked, by word
	shared1, shared2 []float32 // likewise of fields and sharp
	gradient         []float32 // of vector, in this batch
	gradientW        []float32 // of weight and asked, by word
	touched          []bool
	bias1, bias2     float32
}

func newAdam(m *model) adam {
	flat, words, shared := len(m.vector), len(m.weight), len(m.fields)+1
	return adam{turn1: make([]float32, len(m.turn)), turn2: make([]float32, len(m.turn)), vector1: make([]float32, flat), vector2: make([]float32, flat), word1: make([]float32, 2*words), word2: make([]float32, 2*words),
		shared1: make([]float32, shared), shared2: make([]float32, shared), gradient: make([]float32, flat), gradientW: make([]float32, 2*words),
		touched: make([]bool, words)}
}

const (
	decay1, decay2 = 0.9, 0.999
	adamTiny       = 1e-8
)

// An adamRates says how far a step of Adam goes.
type adamRates struct {
	rate float32 // of learning, times the correction of the first mean
	bias float32 // the correction of the second mean
	hold float32 // how strongly values are held to where they started
}

// update returns the step of a parameter with these means, given its gradient.
func (a *adam) update(first, second *float32, g float32) float32 {
	*first = decay1**first + (1-decay1)*g
	*second = decay2**second + (1-decay2)*g*g
	return *first * a.bias1 / (sqrt(*second*a.bias2) + adamTiny)
}

func sqrt(x float32) float32 { return float32(math.Sqrt(float64(x))) }

// apply takes the gradients of a batch to the words and changes all parameters. fields
// holds the gradients of the fields' weights, by tool and field.
func (m *model) apply(batch []pair, fields []float32, sharp, rate float32) {
	a := &m.adam
	a.step++
	a.bias1 = float32(1 / (1 - math.Pow(decay1, float64(a.step))))
	a.bias2 = float32(1 / (1 - math.Pow(decay2, float64(a.step))))
	parts := runtime.GOMAXPROCS(0)
	var group sync.WaitGroup
	for part := range parts { // each has words of its own
		group.Go(func() {
			var touched []int32
			for i := range batch {
				touched = m.scatter(touched, batch[i].task, m.of(m.batch.backWords, i), true, part, parts)
			}
			for j, t := range m.batch.tools {
				for f, words := range t {
					touched = m.scatter(touched, words, m.of(m.batch.backTool, j*len(m.fields)+f), false, part, parts)
				}
			}
			for _, w := range touched {
				m.stepWord(int(w), rate)
			}
		})
	}
	group.Wait()
	if m.tuning.TurnRate > 0 {
		parallel(m.stride, func(k int) { m.stepTurn(k, len(batch), rate) })
	}
	for f := range m.fields {
		g := float32(0)
		for j := f; j < len(fields); j += len(m.fields) {
			g += fields[j]
		}
		m.fields[f] -= sharedRate * rate * a.update(&a.shared1[f], &a.shared2[f], g)
	}
	last := len(m.fields)
	m.sharp -= sharedRate * rate * a.update(&a.shared1[last], &a.shared2[last], sharp)
}

// stepTurn changes a row of the matrix.
func (m *model) stepTurn(k, n int, rate float32) {
	a, b := &m.adam, &m.batch
	g := make([]float32, m.stride)
	for i := range n {
		add(g, m.of(b.wordsTask, i), b.backTask[i*m.stride+k])
	}
	row, t1, t2 := m.of(m.turn, k), m.of(a.turn1, k), m.of(a.turn2, k)
	for j := range row {
		start := float32(0)
		if j == k {
			start = 1
		}
		row[j] -= m.tuning.TurnRate * rate * a.update(&t1[j], &t2[j], g[j]+2*m.tuning.TurnHold*(row[j]-start))
	}
}

// scatter takes the gradient of a sum to those of its words that are the part's.
func (m *model) scatter(touched []int32, words []counted, g []float32, asked bool, part, parts int) []int32 {
	a := &m.adam
	for _, w := range words {
		i := int(w.word)
		if i%parts != part {
			continue
		}
		scale := m.scale
		if asked {
			scale = m.askedScale
		}
		factor := w.times * scale[i]
		add(m.of(a.gradient, i), g, factor)
		along := factor * dot(m.of(m.vector, i), g)
		a.gradientW[2*i] += along
		if asked {
			a.gradientW[2*i+1] += along
		}
		if !a.touched[i] {
			a.touched[i] = true
			touched = append(touched, w.word)
		}
	}
	return touched
}

// stepWord changes the parameters of a word and clears its gradients.
func (m *model) stepWord(i int, rate float32) {
	a := &m.adam
	adamStep(m.of(m.vector, i), m.of(m.start, i), m.of(a.gradient, i), m.of(a.vector1, i), m.of(a.vector2, i),
		adamRates{rate: m.tuning.Rate * rate * a.bias1, bias: a.bias2, hold: 2 * m.tuning.Hold})
	gw, w1, w2 := a.gradientW[2*i:2*i+2], a.word1[2*i:2*i+2], a.word2[2*i:2*i+2]
	m.weight[i] -= m.tuning.WeightRate * rate * a.update(&w1[0], &w2[0], gw[0])
	if gw[1] != 0 {
		m.asked[i] -= m.tuning.WeightRate * rate * a.update(&w1[1], &w2[1], gw[1])
	}
	clear(gw)
	a.touched[i] = false
	m.rescale(i)
}

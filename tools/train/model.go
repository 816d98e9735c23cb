package main

import (
	"math"
	"math/rand/v2"
	"slices"
)

// A model is word vectors while they are trained. Tools and tasks are the sums of their
// words, as package vectors has it. A task must point to its tool rather than to others
// (InfoNCE, van den Oord et al. 2018).
//
// Vectors lie in flat slices, one after the other, each padded with zeros to stride.
type model struct {
	dim, stride int
	start       []float32 // the first vectors, to which the vectors are held
	vector      []float32 // by word
	weight      []float32 // by word: logarithm of how much it counts
	asked       []float32 // by word: logarithm of how much more it counts in a task
	fields      []float32 // logarithm of how much a field counts
	sharp       float32   // logarithm of the inverse temperature
	turn        []float32 // matrix, by row, that the sum of a task's words is multiplied by

	scale, askedScale []float32 // by word: exp(weight), exp(weight+asked)
	adam              adam
	batch             buffers
	tuning            tuning
}

// soften is as in package vectors.
const soften = 0.3

// lanes is the number of float32 values that the kernels process at a time.
const lanes = 8

// A counted is a word and how often it occurs.
type counted struct {
	word  int32
	times float32
}

// A text is a tool: the words of each field.
type text [][]counted

func newModel(start [][]float32, weight []float32, fields int, t tuning) *model {
	words, dim := len(start), len(start[0])
	stride := (dim + lanes - 1) / lanes * lanes
	m := &model{dim: dim, stride: stride, start: make([]float32, words*stride), vector: make([]float32, words*stride),
		weight: make([]float32, words), asked: make([]float32, words), fields: make([]float32, fields), sharp: 3, tuning: t,
		scale: make([]float32, words), askedScale: make([]float32, words)}
	copy(m.weight, weight)
	for i, v := range start {
		copy(m.of(m.start, i), v)
	}
	copy(m.vector, m.start)
	m.turn = make([]float32, stride*stride)
	for i := range stride {
		m.turn[i*stride+i] = 1
	}
	for i := range words {
		m.rescale(i)
	}
	m.adam = newAdam(m)
	return m
}

// of returns the i-th vector of a flat slice.
func (m *model) of(flat []float32, i int) []float32 {
	return flat[i*m.stride : (i+1)*m.stride : (i+1)*m.stride]
}

func (m *model) rescale(word int) {
	m.scale[word] = exp(m.weight[word])
	m.askedScale[word] = exp(m.weight[word] + m.asked[word])
}

func exp(x float32) float32 { return float32(math.Exp(float64(x))) }

func norm(v []float32) float32 { return float32(math.Sqrt(float64(dot(v, v)))) }

func scaled(v []float32, by float32) []float32 {
	w := make([]float32, len(v))
	add(w, v, by)
	return w
}

const tiny = 1e-6

// sum adds up the words in v, and returns its length.
func (m *model) sum(v []float32, words []counted, scale []float32) float32 {
	clear(v)
	for _, w := range words {
		add(v, m.of(m.vector, int(w.word)), w.times*scale[w.word])
	}
	return norm(v)
}

// back makes g the gradient of v, given that of v/(|v|+c), which it holds.
func back(v []float32, length, c float32, g []float32) {
	s := length + c
	along := float32(0)
	if length > tiny {
		along = dot(v, g) / (length * s * s)
	}
	for i := range g {
		g[i] = g[i]/s - v[i]*along
	}
}

// A stage is a part of the training of a model. The rate of learning falls in a straight line.
type stage struct {
	Epochs      int
	First, Last float32 // shares of the rates, at the beginning and at the end
	Share       float64 // of the pairs that an epoch takes from rows
}

// train goes over the pairs that each epoch gives.
func (m *model) train(s stage, pairs func(*rand.Rand) []pair, seed uint64, progress func(epoch, pairs int, loss float64)) {
	random := rand.New(rand.NewPCG(seed, 1))
	for epoch := range s.Epochs {
		all := pairs(random)
		loss, batches := 0.0, 0
		for begin := 0; begin+m.tuning.Batch/2 <= len(all); begin += m.tuning.Batch {
			part := all[begin:min(len(all), begin+m.tuning.Batch)]
			done := (float32(epoch) + float32(begin)/float32(len(all))) / float32(s.Epochs)
			loss += m.learn(part, s.First+(s.Last-s.First)*done)
			batches++
		}
		progress(epoch, len(all), loss/float64(max(1, batches)))
	}
}

// clone returns a model with the same parameters that can be trained on.
func (m *model) clone() *model {
	c := *m
	c.vector, c.weight, c.asked, c.fields, c.turn = slices.Clone(m.vector), slices.Clone(m.weight), slices.Clone(m.asked), slices.Clone(m.fields), slices.Clone(m.turn)
	c.scale, c.askedScale = slices.Clone(m.scale), slices.Clone(m.askedScale)
	c.adam, c.batch = newAdam(&c), buffers{}
	return &c
}

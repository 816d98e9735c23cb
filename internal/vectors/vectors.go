// Package vectors maps words to vectors that were trained for tools: a task and a tool with the
// same meaning have vectors in similar directions, even without a common word.
//
// A model is a list of words (as package index returns them), each with a vector of small
// integers and two weights. tools/train makes it; docs/selection.md says from which data.
package vectors

import (
	_ "embed"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
)

//go:embed model.bin
var embedded []byte

// Embedded returns the model in the program.
var Embedded = sync.OnceValue(func() *Model {
	m, err := Decode(embedded)
	if err != nil {
		panic(err) // a test decodes it
	}
	return m
})

// A Model is immutable.
type Model struct {
	dim    int
	length float32   // of a task's vector
	fields []float32 // the weight of each field of a tool
	index  map[string]int32
	scale  []float32 // by word: the value of one unit of its vector
	asked  []float32 // by word: its weight in a task, relative to its weight in a tool
	turn   []float32 // matrix, by row, that the sum of a task's words is multiplied by; nil: none
	data   []byte    // by word: dim int8 values
}

// Dim returns the length of vectors.
func (m *Model) Dim() int { return m.dim }

// soften reduces the weight of a field with few or unknown words.
const soften = 0.3

// A Vector is the meaning of a text. It is nil if the model knows no word of the text.
type Vector []float32

// Dot returns the scalar product of two vectors, 0 if one of them is nil. The result is the same
// on every platform.
func (v Vector) Dot(w Vector) float32 {
	if len(v) == 0 || len(v) != len(w) {
		return 0
	}
	var a, b, c, d float32
	i := 0
	for ; i+4 <= len(v); i += 4 {
		x, y := v[i:i+4:i+4], w[i:i+4:i+4]
		a += float32(x[0] * y[0]) // the conversions prevent fused operations, which round differently
		b += float32(x[1] * y[1])
		c += float32(x[2] * y[2])
		d += float32(x[3] * y[3])
	}
	for ; i < len(v); i++ {
		a += float32(v[i] * w[i])
	}
	return (a + b) + (c + d)
}

// norm scales v to the length |v|/(|v|+softening). It returns false if v is zero.
func norm(v []float32, softening float32) bool {
	sum := float32(0)
	for _, x := range v {
		sum += float32(x * x)
	}
	if sum == 0 {
		return false
	}
	length := float32(math.Sqrt(float64(sum))) + softening
	for i := range v {
		v[i] /= length
	}
	return true
}

// Knows reports whether the model has the word.
func (m *Model) Knows(word string) bool { _, ok := m.index[word]; return ok }

// add adds a word's vector to v.
func (m *Model) add(v []float32, word int32, times float32) {
	factor := m.scale[word] * times
	for i, b := range m.data[int(word)*m.dim : (int(word)+1)*m.dim] {
		v[i] += float32(factor * float32(int8(b)))
	}
}

// Task returns the vector of a task's words. All have the same length, which depends on the model:
// the scalar products with tools are then comparable between models, unlike the cosines.
func (m *Model) Task(words []string) Vector {
	v := make(Vector, m.dim)
	for _, word := range words {
		if i, ok := m.index[word]; ok {
			m.add(v, i, m.asked[i])
		}
	}
	if v = m.turned(v); !norm(v, 0) {
		return nil
	}
	for i := range v {
		v[i] *= m.length
	}
	return v
}

// turned multiplies the matrix of tasks by v.
func (m *Model) turned(v Vector) Vector {
	if m.turn == nil {
		return v
	}
	w := make(Vector, m.dim)
	for i := range w {
		w[i] = v.Dot(m.turn[i*m.dim : (i+1)*m.dim])
	}
	return w
}

// A Bag collects the words of a tool.
type Bag struct {
	m      *Model
	fields []Vector
}

// NewBag returns an empty bag.
func (m *Model) NewBag() *Bag { return &Bag{m, make([]Vector, len(m.fields))} }

// Add adds a word of a field, count times. The fields are 0 name, 1 description, 2 names of
// parameters, 3 descriptions of parameters and 4 server. Other fields are ignored.
func (b *Bag) Add(field int, word string, count int) {
	i, ok := b.m.index[word]
	if !ok || field >= len(b.fields) {
		return
	}
	if b.fields[field] == nil {
		b.fields[field] = make(Vector, b.m.dim)
	}
	b.m.add(b.fields[field], i, float32(count))
}

// Vector returns the vector of all words, which has unit length. Call it once, at the end.
func (b *Bag) Vector() Vector {
	v := make(Vector, b.m.dim)
	for f, field := range b.fields {
		if field == nil || !norm(field, soften) {
			continue
		}
		for i, x := range field {
			v[i] += float32(b.m.fields[f] * x)
		}
	}
	if !norm(v, 0) {
		return nil
	}
	return v
}

const magic = "mrv3"

// A Word is a word of a model before it is encoded.
type Word struct {
	Text   string
	Vector []float32 // in a tool
	Asked  float32   // its weight in a task, relative to its weight in a tool
}

// Shared is what all words of a model have in common.
type Shared struct {
	Fields []float32 // the weight of each field of a tool
	Turn   []float32 // matrix, by row, that the sum of a task's words is multiplied by; nil: none
	Length float32   // of a task's vector
}

// Encode returns a model in its binary form, in which the values of the vectors are int8. Words
// must be sorted.
func Encode(words []Word, s Shared) []byte {
	var texts []string
	for _, w := range words {
		texts = append(texts, w.Text)
	}
	list := strings.Join(texts, "\n")
	dim := 0
	if len(words) > 0 {
		dim = len(words[0].Vector)
	}
	b := []byte(magic)
	for _, n := range []int{len(words), dim, len(s.Fields), len(s.Turn), len(list)} {
		b = binary.LittleEndian.AppendUint32(b, uint32(n))
	}
	float := func(f float32) { b = binary.LittleEndian.AppendUint32(b, math.Float32bits(f)) }
	float(s.Length)
	for _, f := range slices.Concat(s.Fields, s.Turn) {
		float(f)
	}
	b = append(b, list...)
	scales := make([]float32, len(words))
	for i, w := range words {
		for _, x := range w.Vector {
			scales[i] = max(scales[i], float32(math.Abs(float64(x))))
		}
		scales[i] /= math.MaxInt8
		float(scales[i])
		float(w.Asked)
	}
	for i, w := range words {
		for _, x := range w.Vector {
			q := float32(0)
			if scales[i] > 0 {
				q = x / scales[i]
			}
			b = append(b, byte(int8(math.Round(float64(q)))))
		}
	}
	return b
}

// Decode reads the output of Encode. The model keeps b.
func Decode(b []byte) (*Model, error) {
	const header = len(magic) + 5*4
	if len(b) < header || string(b[:len(magic)]) != magic {
		return nil, errors.New("vectors: not a model of this version")
	}
	var n [5]int
	for i := range n {
		n[i] = int(binary.LittleEndian.Uint32(b[len(magic)+4*i:]))
	}
	words, dim, fields, turn, list := n[0], n[1], n[2], n[3], n[4]
	if want := header + 4*(1+fields+turn) + list + 8*words + words*dim; len(b) != want {
		return nil, fmt.Errorf("vectors: %d bytes instead of %d", len(b), want)
	}
	if turn != 0 && turn != dim*dim {
		return nil, fmt.Errorf("vectors: a matrix of %d numbers for %d dimensions", turn, dim)
	}
	b = b[header:]
	float := func() float32 {
		f := math.Float32frombits(binary.LittleEndian.Uint32(b))
		b = b[4:]
		return f
	}
	m := &Model{dim: dim, index: make(map[string]int32, words)}
	m.length = float()
	for range fields {
		m.fields = append(m.fields, float())
	}
	for range turn {
		m.turn = append(m.turn, float())
	}
	texts := strings.Split(string(b[:list]), "\n")
	if words > 0 && len(texts) != words {
		return nil, fmt.Errorf("vectors: %d words instead of %d", len(texts), words)
	}
	b = b[list:]
	for i := range words {
		m.index[texts[i]] = int32(i)
		m.scale = append(m.scale, float())
		m.asked = append(m.asked, float())
	}
	m.data = b
	return m, nil
}

// Package encoder turns sentences into vectors: a task and a tool that does it have vectors
// in similar directions, even without a common word. It is a small transformer in the manner of
// BERT (Devlin et al., 2018), in plain Go.
//
// The weights are int8, with a scale for each row. Activations are brought to int16 before each
// product of matrices, so the sums are whole numbers, and the vectors equal on every platform.
//
// A [Model] is immutable, and many goroutines may use it. A [Store] keeps vectors in memory and on disk. tools/train/encoder makes its file.
package encoder

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
)

// A Role is the kind of a text.
type Role int

const (
	Task Role = iota // the wish of a person
	Tool             // the description of a tool
)

// A Model encodes texts.
type Model struct {
	sizes
	vocabulary map[string]int32 // numbers of pieces
	word       matrix           // by piece
	widen      dense            // from the width of words to the width of the layers
	place      matrix           // by position
	role       matrix           // by Role
	first      normal
	stack      []layer
	out        dense // of the mean; no rows if the mean is the vector
	free       sync.Pool
}

// The sizes of a model, in the order of the file.
type sizes struct{ pieces, narrow, width, layers, heads, inner, places, dim int }

// A layer is self-attention and two dense layers, each with a sum and a normalization after it.
type layer struct {
	query, key, value, join, up, down dense
	attended, fed                     normal
}

// A dense is a matrix and the bias that is added to the product, if it has one.
type dense struct {
	matrix
	bias []float32
}

// A normal scales and shifts numbers of mean 0 and variance 1.
type normal struct{ gain, shift []float32 }

// A matrix has rows of int8 numbers, each with a scale.
type matrix struct {
	cols  int
	scale []float32
	data  string
}

// row writes a row as float32.
func (m *matrix) row(i int, to []float32) {
	for k := range m.cols {
		to[k] = m.scale[i] * float32(int8(m.data[i*m.cols+k]))
	}
}

const magic = "mre1"

// Bounds of a file.
const (
	mostSize  = 1 << 17
	mostWidth = 1 << 12
	unit      = 16 // of widths: they are multiples of it
)

// Decode reads the file of a model. The model keeps it, since it reads the numbers from it.
func Decode(file string) (*Model, error) {
	r := reader{left: file}
	if r.take(len(magic)) != magic {
		return nil, errors.New("encoder: not a model of this version")
	}
	m := &Model{}
	s, counts := &m.sizes, r.numbers(9)
	for i, n := range []*int{&s.pieces, &s.narrow, &s.width, &s.layers, &s.heads, &s.inner, &s.places, &s.dim} {
		if r.short || counts[i] > mostSize {
			return nil, errors.New("encoder: the sizes of the model are missing or too large")
		}
		*n = int(counts[i])
	}
	if s.narrow%unit+s.width%unit+s.inner%unit+s.dim%unit > 0 || min(s.narrow, s.width, s.inner, s.dim, s.heads) < 1 || s.width%s.heads > 0 || s.places < 3 || max(s.narrow, s.width, s.inner) > mostWidth {
		return nil, fmt.Errorf("encoder: a model of the sizes %+v", *s)
	}
	m.vocabulary = make(map[string]int32, s.pieces)
	for line := range strings.SplitSeq(r.take(int(counts[8])), "\n") {
		m.vocabulary[line] = int32(len(m.vocabulary))
	}
	for _, piece := range []string{unknown, begin, end} {
		if _, ok := m.vocabulary[piece]; !ok || len(m.vocabulary) != s.pieces {
			return nil, fmt.Errorf("encoder: the pieces are not %d with %s", s.pieces, piece)
		}
	}
	m.word = r.matrix(s.pieces, s.narrow)
	m.widen.matrix = r.matrix(s.width, s.narrow)
	m.place, m.role, m.first = r.matrix(s.places, s.width), r.matrix(2, s.width), r.normal(s.width)
	for range s.layers {
		m.stack = append(m.stack, r.layer(s.width, s.inner))
	}
	if s.dim != s.width {
		m.out.matrix = r.matrix(s.dim, s.width)
	}
	if r.short || r.left != "" {
		return nil, errors.New("encoder: the file of the model is cut off or too long")
	}
	m.free.New = func() any { return newScratch(m.sizes) }
	return m, nil
}

// A reader reads a file.
type reader struct {
	left  string
	short bool // more was wanted than is there
}

func (r *reader) take(n int) string {
	if n < 0 || n > len(r.left) {
		r.left, r.short = "", true
		return ""
	}
	s := r.left[:n]
	r.left = r.left[n:]
	return s
}

// numbers returns the next n numbers, or nil.
func (r *reader) numbers(n int) (all []uint32) {
	for b := []byte(r.take(4 * n)); len(b) > 0; b = b[4:] {
		all = append(all, binary.LittleEndian.Uint32(b))
	}
	return all
}

func (r *reader) floats(n int) (all []float32) {
	for _, bits := range r.numbers(n) {
		all = append(all, math.Float32frombits(bits))
	}
	return all
}

func (r *reader) matrix(rows, cols int) matrix {
	return matrix{cols, r.floats(rows), r.take(rows * cols)}
}

func (r *reader) dense(rows, cols int) dense { return dense{r.matrix(rows, cols), r.floats(rows)} }

func (r *reader) normal(n int) normal { return normal{r.floats(n), r.floats(n)} }

func (r *reader) layer(width, inner int) layer {
	return layer{
		query: r.dense(width, width), key: r.dense(width, width), value: r.dense(width, width), join: r.dense(width, width),
		attended: r.normal(width), up: r.dense(inner, width), down: r.dense(width, inner), fed: r.normal(width),
	}
}

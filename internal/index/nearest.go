package index

import (
	"math"

	"github.com/mcp-metarouter/metarouter/internal/vectors"
)

const (
	// headDims is the number of dimensions that are compared first, as small integers. They are
	// the principal ones of the model in the program.
	headDims = 64

	// restCosine is what the other dimensions are expected to have in common at the most. Then a
	// tenth of 14,321 tools are compared in all dimensions, and of the nearest 50 about one is
	// missed, of the nearest 10 none (60 real tasks).
	restCosine = 0.33
)

// heads are the first dimensions of vectors, next to each other: most vectors are far from a
// task, and need not be looked at.
type heads struct {
	values []int8    // headDims of each vector
	rests  []float32 // by vector: the length without them
}

// add adds the head of a vector, which has unit length or is nil.
func (h *heads) add(v vectors.Vector) {
	h.values = appendHead(h.values, v, math.MaxInt8)
	h.rests = append(h.rests, length(v[min(headDims, len(v)):]))
}

func appendHead(to []int8, v vectors.Vector, scale float32) []int8 {
	for i := range headDims {
		x := float32(0)
		if i < len(v) {
			x = v[i] * scale
		}
		to = append(to, int8(math.Round(float64(min(max(x, -math.MaxInt8), math.MaxInt8)))))
	}
	return to
}

// A probe is what a task's vector is compared with heads by.
type probe struct {
	head []int8
	unit float32 // the value of 1 in a product of heads
	rest float32
}

func newProbe(v vectors.Vector) probe {
	most := float32(0)
	for _, x := range v[:min(headDims, len(v))] {
		most = max(most, x, -x)
	}
	if most == 0 {
		most = 1
	}
	scale := math.MaxInt8 / most
	return probe{appendHead(nil, v, scale), 1 / (scale * math.MaxInt8), restCosine * length(v[min(headDims, len(v)):])}
}

// expected returns the most that the scalar product with vector i is expected to be.
func (h *heads) expected(p probe, i int) float32 {
	head := h.values[i*headDims : (i+1)*headDims : (i+1)*headDims]
	q := p.head[:headDims]
	var a, b, c, d int32
	for k := 0; k+4 <= headDims; k += 4 {
		x, y := head[k:k+4:k+4], q[k:k+4:k+4]
		a += int32(x[0]) * int32(y[0])
		b += int32(x[1]) * int32(y[1])
		c += int32(x[2]) * int32(y[2])
		d += int32(x[3]) * int32(y[3])
	}
	return float32(p.unit*float32(a+b+c+d)) + float32(p.rest*h.rests[i])
}

// length returns the length of a vector.
func length(v vectors.Vector) float32 { return float32(math.Sqrt(float64(v.Dot(v)))) }

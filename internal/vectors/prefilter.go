package vectors

import "math"

const (
	// headDims is the number of dimensions that are compared first, as small integers. They are
	// the principal ones of the model in the program.
	headDims = 64

	// restCosine is what the other dimensions are expected to have in common at the most. Then a
	// tenth of 14,321 tools are compared in all dimensions, and of the nearest 50 about one is
	// missed, of the nearest 10 none (60 real tasks).
	restCosine = 0.33
)

// A Prefilter tells most of the vectors that are far from a task by their first dimensions, which
// it has next to each other.
type Prefilter struct {
	values []int8    // headDims of each vector
	rests  []float32 // by vector: the length without them
}

// NewPrefilter returns a prefilter without vectors, with room for n.
func NewPrefilter(n int) Prefilter {
	return Prefilter{make([]int8, 0, n*headDims), make([]float32, 0, n)}
}

// Add adds a vector, which has unit length or is nil.
func (h *Prefilter) Add(v Vector) {
	h.values = appendHead(h.values, v, math.MaxInt8)
	h.rests = append(h.rests, length(v[min(headDims, len(v)):]))
}

func appendHead(to []int8, v Vector, scale float32) []int8 {
	for i := range headDims {
		x := float32(0)
		if i < len(v) {
			x = v[i] * scale
		}
		to = append(to, int8(math.Round(float64(min(max(x, -math.MaxInt8), math.MaxInt8)))))
	}
	return to
}

// A Probe is a task's vector as a [Prefilter] compares it.
type Probe struct {
	head []int8
	unit float32 // the value of 1 in a product of heads
	rest float32
}

// NewProbe returns the probe of a vector.
func NewProbe(v Vector) Probe {
	most := float32(0)
	for _, x := range v[:min(headDims, len(v))] {
		most = max(most, x, -x)
	}
	if most == 0 {
		most = 1
	}
	scale := math.MaxInt8 / most
	return Probe{appendHead(nil, v, scale), 1 / (scale * math.MaxInt8), restCosine * length(v[min(headDims, len(v)):])}
}

// Expected returns the most that the scalar product with the vector that was added as the i-th,
// from 0, is expected to be.
func (h *Prefilter) Expected(p Probe, i int) float32 {
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
func length(v Vector) float32 { return float32(math.Sqrt(float64(v.Dot(v)))) }

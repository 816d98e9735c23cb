package encoder

import (
	"unsafe"
)

// A Matrix is vectors of one length in a quarter of their space, as int8 numbers. It is immutable.
type Matrix struct{ rows dense }

// NewMatrix returns the matrix of vectors of the same length, at most mostWidth, so that sums
// fit into 32 bits. A vector that is nil is 0.
func NewMatrix(all []Vector) *Matrix {
	cols := 0
	for _, v := range all {
		cols = max(cols, (len(v)+unit-1)/unit*unit)
	}
	data, scales := make([]byte, len(all)*cols), make([]float32, len(all))
	for i, v := range all {
		most := float32(0)
		for _, x := range v {
			most = max(most, x, -x)
		}
		if most == 0 {
			continue
		}
		scales[i] = most / 127
		for k, x := range v {
			const half = 1<<7 + 0.5 // as in quantize
			data[i*cols+k] = byte(int32(float32(x*(127/most))+half) - 1<<7)
		}
	}
	return &Matrix{dense{matrix: matrix{cols, scales, unsafe.String(unsafe.SliceData(data), len(data))}}}
}

// Dot returns the scalar products of the vectors of the matrix with each v, which has their length.
func (m *Matrix) Dot(vs []Vector) [][]float32 {
	n, cols, rows := len(vs), m.rows.cols, len(m.rows.scale)
	x, to := make([]float32, n*cols), make([]float32, n*rows)
	for i, v := range vs {
		copy(x[i*cols:(i+1)*cols], v)
	}
	if len(x) > 0 {
		s := &scratch{quantized: make([]int16, (n+together-1)/together*together*cols), unit: make([]float32, n), whole: make([]int32, together*rows)}
		s.quantize(x, n)
		m.rows.apply(to, s, n)
	}
	all := make([][]float32, n)
	for i := range all {
		all[i] = to[i*rows : (i+1)*rows]
	}
	return all
}

package encoder

import (
	"math"
	"sync"
)

// span is the greatest absolute value of a quantized activation: 4,096 products of it and an int8
// are less than 1<<31.
const span = 4095

// together is how many rows of activations are multiplied at once. It divides mostTokens.
const together = 4

// quantize brings the n rows of x to int16.
func (s *scratch) quantize(x []float32, n int) {
	width := len(x) / n
	rows := (n + together - 1) / together * together
	s.quantized = s.quantized[:rows*width]
	clear(s.quantized[len(x):])
	for t := range n {
		row, to := x[t*width:(t+1)*width], s.quantized[t*width:(t+1)*width]
		greatest := uint32(0) // of the bits of absolute values, which have the order of the values
		for _, v := range row {
			greatest = max(greatest, math.Float32bits(v)&^(1<<31))
		}
		most := math.Float32frombits(greatest)
		s.unit[t] = most / span
		by := float32(0)
		if most > 0 {
			by = span / most
		}
		for i, v := range row {
			const half = 1<<15 + 0.5 // makes the number positive, so that cutting off rounds to the nearest
			to[i] = int16(int32(float32(v*by)+half) - 1<<15)
		}
	}
}

// apply writes the products of the matrix and the n quantized rows of s, plus the bias if it has one.
func (d *dense) apply(to []float32, s *scratch, n int) {
	rows := len(d.scale)
	whole := s.whole[:together*rows]
	for first := 0; first < n; first += together {
		products(whole, d.data, s.quantized[first*d.cols:(first+together)*d.cols])
		for t := first; t < min(n, first+together); t++ {
			row, unit, sums := to[t*rows:(t+1)*rows], s.unit[t], whole[t-first:]
			for i, scale := range d.scale[:len(row)] {
				row[i] = float32(sums[together*i]) * (scale * unit)
			}
			for i, b := range d.bias {
				row[i] += b
			}
		}
	}
}

// productsPlain writes the scalar products of each row of weights, which are int8 numbers, and the
// rows of x: together of them, one after the other.
func productsPlain(to []int32, weights string, x []int16) {
	width := len(x) / together
	for i := range to {
		w, v := weights[i/together*width:][:width], x[i%together*width:][:width]
		var a, b, c, d int32
		for k := 0; k+4 <= len(v) && k+4 <= len(w); k += 4 {
			v, w := v[k:k+4:k+4], w[k:k+4]
			a += int32(v[0]) * int32(int8(w[0]))
			b += int32(v[1]) * int32(int8(w[1]))
			c += int32(v[2]) * int32(int8(w[2]))
			d += int32(v[3]) * int32(int8(w[3]))
		}
		to[i] = a + b + c + d
	}
}

const (
	geluEnd  = 6   // from which gelu(x) is x, and 0 for -x
	geluStep = 512 // to one
)

var gelus = sync.OnceValue(func() *[2*geluEnd*geluStep + 2]float32 {
	table := new([2*geluEnd*geluStep + 2]float32)
	for i := range table {
		table[i] = exactGelu(float32(i)/geluStep - geluEnd)
	}
	return table
})

// gelu replaces each x by its product with the probability that a normal variable is less.
func gelu(all []float32) {
	table := gelus()
	for i, x := range all {
		if x <= -geluEnd {
			all[i] = 0
		} else if x < geluEnd {
			at := (x + geluEnd) * geluStep
			k := int32(at)
			y := table[k]
			all[i] = y + float32((at-float32(k))*(table[k+1]-y))
		}
	}
}

// exactGelu is gelu of one number.
func exactGelu(x float32) float32 {
	z := x * (1 / math.Sqrt2)
	if z < 0 {
		z = -z
	}
	// Abramowitz and Stegun, 7.1.26: the error is below 1.5e-7.
	t := 1 / (1 + float32(0.3275911*z))
	p := float32(1.061405429*t) - 1.453152027
	p = float32(p*t) + 1.421413741
	p = float32(p*t) - 0.284496736
	p = float32(p*t) + 0.254829592
	tail := float32(p*t) * exp(-z*z) / 2
	if x < 0 {
		return x * tail
	}
	return x * (1 - tail)
}

// exp returns e to the power of x, for x of at most 0, and the same on every platform.
func exp(x float32) float32 {
	if x < -80 {
		return 0
	}
	n := int32(float32(x*math.Log2E) - 0.5) // nearest; x is not positive
	r := x - float32(float32(n)*0.693359375)
	r += float32(float32(n) * 2.12194440e-4)
	p := float32(1.9875691500e-4*r) + 1.3981999507e-3
	p = float32(p*r) + 8.3334519073e-3
	p = float32(p*r) + 4.1665795894e-2
	p = float32(p*r) + 1.6666665459e-1
	p = float32(p*r) + 5.0000001201e-1
	p = float32(float32(p*r)*r) + r + 1
	return p * math.Float32frombits(uint32(n+127)<<23)
}

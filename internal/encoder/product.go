package encoder

import "math"

// span is the greatest absolute value of a quantized activation: 4,096 products of it and an int8
// are less than 1<<31.
const span = 4095

// quantize brings x to int16.
func (s *scratch) quantize(x []float32) {
	most := float32(0)
	for _, v := range x {
		most = max(most, v, -v)
	}
	s.unit = most / span
	by := float32(0)
	if most > 0 {
		by = span / most
	}
	s.quantized = s.quantized[:len(x)]
	for i, v := range x {
		const half = 1<<15 + 0.5 // makes the number positive, so that cutting off rounds to the nearest
		s.quantized[i] = int16(int32(float32(v*by)+half) - 1<<15)
	}
}

// apply writes the product of the matrix and the quantized numbers of s, plus the bias if it has one.
func (d *dense) apply(to []float32, s *scratch) {
	whole := s.whole[:len(d.scale)]
	products(whole, d.data, s.quantized)
	for i, n := range whole {
		to[i] = float32(n) * (d.scale[i] * s.unit)
	}
	for i, b := range d.bias {
		to[i] += b
	}
}

// productsPlain writes the scalar products of x and the rows, which have as many int8 numbers.
func productsPlain(to []int32, rows string, x []int16) {
	for i := range to {
		row := rows[i*len(x) : (i+1)*len(x)]
		var a, b, c, d int32
		for k := 0; k+4 <= len(x) && k+4 <= len(row); k += 4 {
			v, w := x[k:k+4:k+4], row[k:k+4]
			a += int32(v[0]) * int32(int8(w[0]))
			b += int32(v[1]) * int32(int8(w[1]))
			c += int32(v[2]) * int32(int8(w[2]))
			d += int32(v[3]) * int32(int8(w[3]))
		}
		to[i] = a + b + c + d
	}
}

// gelu is x times the probability that a normal variable is less than x.
func gelu(x float32) float32 {
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

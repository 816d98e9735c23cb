package encoder

// A Vector is the meaning of a text. Texts of similar meaning have vectors in similar directions.
type Vector []float32

// Dot returns the scalar product of two vectors, 0 if they have different lengths. The result is
// the same on every platform.
func (v Vector) Dot(w Vector) float32 {
	if len(v) != len(w) {
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

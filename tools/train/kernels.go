//go:build !goexperiment.simd || !amd64

package main

// dot returns the scalar product of two vectors of equal length.
func dot(a, b []float32) float32 {
	b = b[:len(a)]
	var s, t, u, v float32
	i := 0
	for ; i+4 <= len(a); i += 4 {
		x, y := a[i:i+4:i+4], b[i:i+4:i+4]
		s += x[0] * y[0]
		t += x[1] * y[1]
		u += x[2] * y[2]
		v += x[3] * y[3]
	}
	for ; i < len(a); i++ {
		s += a[i] * b[i]
	}
	return s + t + u + v
}

// add adds factor × v to sum.
func add(sum, v []float32, factor float32) {
	v = v[:len(sum)]
	for i := range sum {
		sum[i] += factor * v[i]
	}
}

// adamStep changes values by a step of Adam, given their gradients, and clears these. It holds
// them to where they started.
func adamStep(v, start, gradient, first, second []float32, k adamRates) {
	for i := range v {
		g := gradient[i] + k.hold*(v[i]-start[i])
		first[i] = decay1*first[i] + (1-decay1)*g
		second[i] = decay2*second[i] + (1-decay2)*g*g
		v[i] -= k.rate * first[i] / (sqrt(second[i]*k.bias) + adamTiny)
		gradient[i] = 0
	}
}

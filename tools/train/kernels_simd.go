//go:build goexperiment.simd && amd64

package main

import "simd/archsimd"

// dot returns the scalar product of two vectors of equal length. It needs a processor with
// AVX2 and FMA.
func dot(a, b []float32) float32 {
	b = b[:len(a)]
	var s, t archsimd.Float32x8
	i := 0
	for ; i+16 <= len(a); i += 16 {
		s = archsimd.LoadFloat32x8Slice(a[i:]).MulAdd(archsimd.LoadFloat32x8Slice(b[i:]), s)
		t = archsimd.LoadFloat32x8Slice(a[i+8:]).MulAdd(archsimd.LoadFloat32x8Slice(b[i+8:]), t)
	}
	var parts [8]float32
	s.Add(t).Store(&parts)
	sum := (parts[0] + parts[4]) + (parts[1] + parts[5]) + (parts[2] + parts[6]) + (parts[3] + parts[7])
	for ; i < len(a); i++ {
		sum += a[i] * b[i]
	}
	return sum
}

// add adds factor × v to sum.
func add(sum, v []float32, factor float32) {
	v = v[:len(sum)]
	f := archsimd.BroadcastFloat32x8(factor)
	i := 0
	for ; i+8 <= len(sum); i += 8 {
		archsimd.LoadFloat32x8Slice(v[i:]).MulAdd(f, archsimd.LoadFloat32x8Slice(sum[i:])).StoreSlice(sum[i:])
	}
	for ; i < len(sum); i++ {
		sum[i] += factor * v[i]
	}
}

// adamStep changes values by a step of Adam, given their gradients, and clears these. It holds
// them to where they started. The slices have a multiple of lanes values.
func adamStep(v, start, gradient, first, second []float32, k adamRates) {
	hold, rate, bias := archsimd.BroadcastFloat32x8(k.hold), archsimd.BroadcastFloat32x8(k.rate), archsimd.BroadcastFloat32x8(k.bias)
	d1, e1 := archsimd.BroadcastFloat32x8(decay1), archsimd.BroadcastFloat32x8(1-decay1)
	d2, e2 := archsimd.BroadcastFloat32x8(decay2), archsimd.BroadcastFloat32x8(1-decay2)
	small, zero := archsimd.BroadcastFloat32x8(adamTiny), archsimd.BroadcastFloat32x8(0)
	for i := 0; i+lanes <= len(v); i += lanes {
		x := archsimd.LoadFloat32x8Slice(v[i:])
		g := x.Sub(archsimd.LoadFloat32x8Slice(start[i:])).MulAdd(hold, archsimd.LoadFloat32x8Slice(gradient[i:]))
		f := archsimd.LoadFloat32x8Slice(first[i:]).Mul(d1).Add(g.Mul(e1))
		s := archsimd.LoadFloat32x8Slice(second[i:]).Mul(d2).Add(g.Mul(g).Mul(e2))
		f.StoreSlice(first[i:])
		s.StoreSlice(second[i:])
		x.Sub(f.Mul(rate).Div(s.Mul(bias).Sqrt().Add(small))).StoreSlice(v[i:])
		zero.StoreSlice(gradient[i:])
	}
}

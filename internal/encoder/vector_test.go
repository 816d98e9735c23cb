package encoder

import "testing"

func TestDot(t *testing.T) {
	v := Vector{1, 2, 3, 4, 5, 6, 7}
	for n := range len(v) + 1 {
		want := float32(0)
		for _, x := range v[:n] {
			want += x * -2 * x
		}
		w := make(Vector, n)
		for i := range w {
			w[i] = -2 * v[i]
		}
		if got := v[:n].Dot(w); got != want {
			t.Errorf("of %d numbers: %v, want %v", n, got, want)
		}
	}
	if got := v.Dot(v[:4]); got != 0 {
		t.Errorf("of two lengths: %v", got)
	}
}

func BenchmarkDot(b *testing.B) {
	v, w := make(Vector, 384), make(Vector, 384)
	for b.Loop() {
		v.Dot(w)
	}
}

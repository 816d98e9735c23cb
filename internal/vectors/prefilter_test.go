package vectors

import (
	"math"
	"math/rand/v2"
	"testing"
)

// What is expected of a vector is its product in the first dimensions and a share of what the
// others can add.
func TestExpected(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	vector := func(dim int, rest float64) Vector {
		v := make(Vector, dim)
		for i := range v {
			v[i] = float32(random.NormFloat64())
			if i >= headDims {
				v[i] *= float32(rest)
			}
		}
		l := length(v)
		for i := range v {
			v[i] /= l
		}
		return v
	}
	for _, dim := range []int{3, headDims, headDims + 50} {
		var h Prefilter
		h.Add(nil)
		task := vector(dim, 0.5)
		p := NewProbe(task)
		if got := h.Expected(p, 0); got != 0 {
			t.Errorf("%v is expected of no vector", got)
		}
		for i := 1; i < 50; i++ {
			v := vector(dim, 0.5)
			h.Add(v)
			n := min(headDims, dim)
			want := task[:n].Dot(v[:n]) + restCosine*length(task[n:])*length(v[n:])
			if got := h.Expected(p, i); math.Abs(float64(got-want)) > 0.02 {
				t.Errorf("%d dimensions: %v is expected, not %v", dim, got, want)
			}
		}
	}
}

package encoder

import (
	"testing"

	"github.com/mcp-metarouter/metarouter/test/expect"
)

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
		expect.Equal(t, v[:n].Dot(w), want, "of %d numbers", n)
	}
	expect.Equal(t, v.Dot(v[:4]), 0, "of two lengths")
}

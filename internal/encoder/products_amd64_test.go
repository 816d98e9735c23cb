package encoder

import (
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"

	"golang.org/x/sys/cpu"
)

// TestProductsAVX2 takes the widths for which products may have a faster way.
func TestProductsAVX2(t *testing.T) {
	if !cpu.X86.HasAVX2 {
		t.Skip("no AVX2")
	}
	random := rand.New(rand.NewPCG(7, 8))
	for _, width := range []int{256, 384, 768} {
		x, rows := make([]int16, together*width), make([]byte, 5*width)
		for i := range x {
			x[i] = int16(random.IntN(2*span+1) - span)
		}
		for i := range rows {
			rows[i] = byte(int8(random.IntN(255) - 127))
		}
		got, want := make([]int32, 5*together), make([]int32, 5*together)
		productsPlain(want, string(rows), x)
		productsAVX2(&got[0], unsafe.SliceData(rows), &x[0], 5, width)
		if !slices.Equal(got, want) {
			t.Errorf("%d: %v, want %v", width, got, want)
		}
	}
}

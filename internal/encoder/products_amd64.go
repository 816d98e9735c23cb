package encoder

import (
	"unsafe"

	"golang.org/x/sys/cpu"
)

// products is productsPlain, in a fraction of the time where the processor can.
func products(to []int32, weights string, x []int16) {
	if !cpu.X86.HasAVX2 || len(to) == 0 {
		productsPlain(to, weights, x)
		return
	}
	n, width := len(to)/together, len(x)/together
	productsAVX2(&to[0], unsafe.StringData(weights[:n*width]), &x[0], n, width)
}

// productsAVX2 takes n rows of weights and four rows of x, of width numbers each. width is a
// multiple of 16.
//
//go:noescape
func productsAVX2(to *int32, weights *byte, x *int16, n, width int)

// addFour is addFourPlain, in a fraction of the time where the processor can.
func addFour(to, rows []float32, width int, by []float32) {
	if !cpu.X86.HasAVX2 || len(to) == 0 || len(to)%8 > 0 {
		addFourPlain(to, rows, width, by)
		return
	}
	rows, by = rows[:3*width+len(to)], by[:4]
	addFourAVX2(&to[0], &rows[0], &by[0], len(to), width)
}

// addFourAVX2 takes n numbers of each row. n is a multiple of 8.
//
//go:noescape
func addFourAVX2(to, rows, by *float32, n, width int)

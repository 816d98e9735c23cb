package encoder

import (
	"unsafe"

	"golang.org/x/sys/cpu"
)

// products is productsPlain, in a fraction of the time where the processor can.
func products(to []int32, rows string, x []int16) {
	if !cpu.X86.HasAVX2 || len(to) == 0 {
		productsPlain(to, rows, x)
		return
	}
	productsAVX2(&to[0], unsafe.StringData(rows[:len(to)*len(x)]), &x[0], len(to), len(x))
}

// productsAVX2 takes rows of width numbers. width is a multiple of 16.
//
//go:noescape
func productsAVX2(to *int32, rows *byte, x *int16, n, width int)

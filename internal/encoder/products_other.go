//go:build !amd64

package encoder

func products(to []int32, rows string, x []int16) { productsPlain(to, rows, x) }

func addFour(to, rows []float32, width int, by []float32) { addFourPlain(to, rows, width, by) }

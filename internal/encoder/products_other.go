//go:build !amd64

package encoder

func products(to []int32, rows string, x []int16) { productsPlain(to, rows, x) }

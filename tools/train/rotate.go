package main

import (
	"cmp"
	"math"
	"slices"

	"github.com/mcp-metarouter/metarouter/internal/vectors"
)

// rotate turns all vectors so that their first dimensions have most of what tells tools apart:
// the principal components of the tools' vectors. No scalar product changes, but a search can
// pass over most tools after the first dimensions.
func rotate(words []vectors.Word, s *vectors.Shared, tools [][]float32) {
	if len(tools) == 0 || len(words) == 0 {
		return
	}
	axes := components(tools)
	for i := range words {
		words[i].Vector = along(axes, words[i].Vector)
	}
	if s.Turn == nil {
		return
	}
	dim := len(axes)
	columns := make([][]float32, dim) // of turn × axesᵀ
	for k, axis := range axes {
		columns[k] = make([]float32, dim)
		for i := range dim {
			columns[k][i] = dot(s.Turn[i*dim:(i+1)*dim], axis)
		}
	}
	turned := make([]float32, 0, dim*dim)
	for _, axis := range axes {
		turned = append(turned, along(columns, axis)...)
	}
	s.Turn = turned
}

// along returns the coordinates of v on the axes.
func along(axes [][]float32, v []float32) []float32 {
	w := make([]float32, len(axes))
	for i, axis := range axes {
		w[i] = dot(axis, v)
	}
	return w
}

// components returns the principal components of vectors, the greatest first: the eigenvectors of
// their second moments, by Jacobi's rotations.
func components(all [][]float32) [][]float32 {
	dim := len(all[0])
	a, axes := make([][]float64, dim), make([][]float64, dim)
	for i := range dim {
		a[i], axes[i] = make([]float64, dim), make([]float64, dim)
		axes[i][i] = 1
	}
	for _, v := range all {
		for i, x := range v {
			for j, y := range v {
				a[i][j] += float64(x) * float64(y)
			}
		}
	}
	const sweeps = 12
	for range sweeps {
		for p := range dim {
			for q := p + 1; q < dim; q++ {
				annihilate(a, axes, p, q)
			}
		}
	}
	order := make([]int, dim)
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int { return cmp.Compare(a[j][j], a[i][i]) })
	sorted := make([][]float32, dim)
	for k, i := range order {
		for _, x := range axes[i] {
			sorted[k] = append(sorted[k], float32(x))
		}
	}
	return sorted
}

// annihilate makes a[p][q] zero by a rotation, which the axes, by row, follow.
func annihilate(a, axes [][]float64, p, q int) {
	if math.Abs(a[p][q]) < 1e-12*math.Sqrt(math.Abs(a[p][p]*a[q][q])) || a[p][q] == 0 {
		return
	}
	theta := (a[q][q] - a[p][p]) / (2 * a[p][q])
	t := 1 / (math.Abs(theta) + math.Sqrt(theta*theta+1))
	if theta < 0 {
		t = -t
	}
	c := 1 / math.Sqrt(t*t+1)
	s := t * c
	for k := range a {
		x, y := a[k][p], a[k][q]
		a[k][p], a[k][q] = c*x-s*y, s*x+c*y
	}
	for _, m := range [][][]float64{a, axes} {
		for k := range a {
			x, y := m[p][k], m[q][k]
			m[p][k], m[q][k] = c*x-s*y, s*x+c*y
		}
	}
}

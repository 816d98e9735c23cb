package main

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/mcp-metarouter/metarouter/internal/vectors"
)

// Rotated vectors have the same scalar products, and most of the length in front.
func TestRotate(t *testing.T) {
	const dim, n = 12, 200
	random := rand.New(rand.NewPCG(4, 4))
	vector := func() []float32 {
		v := make([]float32, dim)
		x, y := random.NormFloat64(), random.NormFloat64()
		for k := range v { // two directions, and little else
			v[k] = float32(x*math.Sin(float64(k)) + y*math.Cos(2*float64(k)) + 0.05*random.NormFloat64())
		}
		return v
	}
	var tools [][]float32
	for range n {
		tools = append(tools, vector())
	}
	words := []vectors.Word{{Text: "a", Vector: vector()}, {Text: "b", Vector: vector()}}
	turn := make([]float32, dim*dim)
	for i := range turn {
		turn[i] = float32(random.NormFloat64())
	}
	product := func(s vectors.Shared) float32 { // of the task a and the tool b
		sum := float32(0)
		for i := range dim {
			sum += dot(s.Turn[i*dim:(i+1)*dim], words[0].Vector) * words[1].Vector[i]
		}
		return sum
	}
	s := vectors.Shared{Turn: turn}
	before, length := product(s), norm(words[0].Vector)
	rotate(words, &s, tools)
	if after := product(s); math.Abs(float64(after-before)) > 1e-3 {
		t.Errorf("the task and the tool have %v, and had %v", after, before)
	}
	for _, w := range words {
		if front := norm(w.Vector[:2]); front < 0.95*norm(w.Vector) {
			t.Errorf("the first two dimensions have %v of %v", front, norm(w.Vector))
		}
	}
	if after := norm(words[0].Vector); math.Abs(float64(after-length)) > 1e-3 {
		t.Errorf("the length was %v and is %v", length, after)
	}
}

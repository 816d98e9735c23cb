package rank

import "slices"

// WithoutUse returns how the candidates would be ranked if nothing had been learned from use.
func WithoutUse(ranked []Candidate) []Candidate {
	if len(ranked) == 0 {
		return nil
	}
	without := slices.Clone(ranked)
	for i := range without {
		without[i].Features[UseFeature] = 0
	}
	return Reorder(without, ranked[0].by.weights, ranked[0].by.sharpness)
}

package rank

import (
	"cmp"
	"slices"
)

// WithoutUse returns how the candidates would be ranked if nothing had been learned from use.
func WithoutUse(ranked []Candidate) []Candidate {
	without := slices.Clone(ranked)
	for i := range without {
		c := &without[i]
		c.Features[UseFeature], c.Evidence[LeadEvidence], c.Confidence, c.Score = 0, 0, 0, 0
		for f, x := range c.Features {
			c.Score += float64(featureWeights[f] * x)
		}
		c.Score = max(0, c.Score)
	}
	slices.SortStableFunc(without, func(a, b Candidate) int { return cmp.Compare(b.Score, a.Score) })
	setConfidence(without)
	return without
}

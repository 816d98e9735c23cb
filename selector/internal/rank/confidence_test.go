package rank

import (
	"fmt"
	"slices"
	"testing"

	"github.com/mcp-metarouter/metarouter/registry"
)

// Reorder with the weights in use changes nothing: neither order nor confidence.
func TestReorder(t *testing.T) {
	var ranked []Candidate
	for i := range 5 {
		c := Candidate{by: &byWords, Tool: &registry.NormalizedTool{ID: fmt.Sprintf("a:%d", i)}}
		c.Features[StepFeature], c.Features[CoverageFeature], c.Features[MeaningFeature] = float64(i)/5, float64(i)/10, 0.3
		c.Evidence[CoveredEvidence], c.Evidence[LengthEvidence] = float64(i)/5, 1
		ranked = append(ranked, c)
	}
	once := Reorder(ranked, byWords.weights, byWords.sharpness)
	again := Reorder(once, byWords.weights, byWords.sharpness)
	for i, c := range once {
		if c.Score != again[i].Score || c.Confidence != again[i].Confidence || c.Features[StepFeature] != float64(4-i)/5 {
			t.Errorf("candidate %d: %+v, then %+v", i, c, again[i])
		}
		if i > 0 && c.Confidence > once[i-1].Confidence {
			t.Errorf("candidate %d has more confidence than the one before", i)
		}
	}
	if once[0].Confidence <= once[4].Confidence {
		t.Errorf("confidences %v and %v", once[0].Confidence, once[4].Confidence)
	}
	for _, by := range []learned{byWords, bySentences} {
		if !slices.IsSorted(by.confidences[:]) {
			t.Errorf("confidences %v fall", by.confidences)
		}
	}
}

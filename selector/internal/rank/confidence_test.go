package rank

import (
	"fmt"
	"testing"

	"github.com/mcp-metarouter/metarouter/registry"
)

// Reorder with the weights in use changes nothing: neither order nor confidence.
func TestReorder(t *testing.T) {
	var ranked []Candidate
	for i := range 5 {
		c := Candidate{Tool: &registry.NormalizedTool{ID: fmt.Sprintf("a:%d", i)}}
		c.Features[WordsFeature], c.Features[MeaningFeature] = float64(i)/10, 0.3
		c.Evidence[CrowdEvidence], c.Evidence[LengthEvidence] = 3, 1
		ranked = append(ranked, c)
	}
	once := Reorder(ranked, fitted.weights, fitted.sharpness)
	again := Reorder(once, fitted.weights, fitted.sharpness)
	for i, c := range once {
		if c.Score != again[i].Score || c.Confidence != again[i].Confidence || c.Features[WordsFeature] != float64(4-i)/10 {
			t.Errorf("candidate %d: %+v, then %+v", i, c, again[i])
		}
		if i > 0 && c.Confidence > once[i-1].Confidence {
			t.Errorf("candidate %d has more confidence than the one before", i)
		}
	}
	if once[0].Confidence <= once[4].Confidence || len(Reorder(nil, fitted.weights, 1)) > 0 {
		t.Errorf("confidences %v and %v", once[0].Confidence, once[4].Confidence)
	}
}

// A candidate that nothing speaks for has no confidence.
func TestNothing(t *testing.T) {
	one := []Candidate{{Tool: &registry.NormalizedTool{ID: "a:b"}}}
	if c := Reorder(one, fitted.weights, fitted.sharpness)[0]; c.Confidence != 0 {
		t.Errorf("confidence %v", c.Confidence)
	}
}

package cli

import (
	"testing"

	"github.com/mcp-metarouter/metarouter/test/expect"
)

// A number says how sure an answer is, and a dash that there is nothing to be sure of.
func TestShownConfidence(t *testing.T) {
	for confidence, want := range map[float64]string{0: "–", 0.009: "–", 0.012: "0.01", 0.189: "0.18", 0.499: "0.49", 0.5: "0.50", 1: "1.00"} {
		expect.Equal(t, shownConfidence(confidence), want, "%v", confidence)
	}
}

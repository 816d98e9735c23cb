package external_test

import (
	"testing"

	"github.com/mcp-metarouter/metarouter/test/external"
)

// The numbers that the SDK's own server reaches are those that a router in front
// of it is held to.
func TestConformance(t *testing.T) {
	for _, test := range []struct {
		revision        string
		stateless       bool
		passed, skipped int // of what is scored
		all             int // passed
	}{
		{"2025-11-25", false, 70, 0, 82},
		{"2026-07-28", true, 121, 0, 165},
	} {
		t.Run(test.revision, func(t *testing.T) {
			passed, skipped, all := 0, 0, 0
			for _, s := range external.ServerConformance(t, external.EverythingHTTP(t, test.stateless), test.revision) {
				all += s.Passed()
				if !s.Scored {
					continue
				}
				passed += s.Passed()
				skipped += len(s.Skipped())
				for _, failed := range s.Failed() {
					t.Error(failed)
				}
			}
			if passed != test.passed || skipped != test.skipped || all != test.all {
				t.Errorf("%d scored checks passed, %d were skipped, and %d passed in all; want %d, %d and %d",
					passed, skipped, all, test.passed, test.skipped, test.all)
			}
		})
	}
}

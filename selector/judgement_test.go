package selector

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

// The answer says what follows from the confidence that it shows, and nothing else.
func TestJudge(t *testing.T) {
	tagged := &registry.NormalizedTool{ID: "a:b", Capabilities: []string{"git"}}
	for _, test := range []struct {
		name            string
		confidence      float64
		threshold       float64
		query           Query
		hasTask         bool
		sure, abstained bool
	}{
		{"sure", 0.5, 0, Query{}, true, true, false},
		{"nearest", 0.4999, 0, Query{}, true, false, false},
		{"barely an answer", 0.12, 0, Query{}, true, false, false},
		{"no answer", 0.0499, 0, Query{}, true, false, true},
		{"lower threshold", 0.1, 0.1, Query{}, true, true, false},
		{"higher threshold", 0.6, 0.7, Query{}, true, false, false},
		{"no answer, though above the threshold", 0.04, 0.01, Query{}, true, false, true},
		{"capabilities alone", 0.01, 0, Query{Capabilities: []string{" GIT"}}, false, true, false},
		{"unknown capabilities alone", 0.9, 0, Query{Capabilities: []string{"vcs"}}, false, false, true},
		{"nothing", 0.9, 0, Query{}, false, false, true},
	} {
		s := &Selector{findThreshold: func() float64 { return test.threshold }}
		r := judge(Ranking{Candidates: []Candidate{{Tool: tagged, Confidence: test.confidence}}}, test.query, test.hasTask, s.threshold())
		if r.Sure != test.sure || r.Abstained != test.abstained {
			t.Errorf("%s: sure %v, abstained %v", test.name, r.Sure, r.Abstained)
		}
	}
	for next, sure := range map[float64]bool{0.64: true, 0.65: false, 0.8: false} {
		r := judge(Ranking{Candidates: []Candidate{{Tool: tagged, Confidence: 0.8}, {Confidence: next}}}, Query{}, true, DefaultFindThreshold)
		expect.Equal(t, r.Sure, sure, "0.8 and then %v: sure", next)
	}
	if r := judge(Ranking{}, Query{}, true, DefaultFindThreshold); r.Sure || !r.Abstained {
		t.Errorf("without candidates: %+v", r)
	}
}

// The schema of the configuration names the default that is in use.
func TestFindThresholdDefault(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "config", "schema.json"))
	expect.OK(t, err)
	var schema struct {
		Properties struct {
			Metarouter struct {
				Properties struct{ FindThreshold struct{ Default float64 } }
			}
		}
	}
	if err := json.Unmarshal(text, &schema); err != nil || schema.Properties.Metarouter.Properties.FindThreshold.Default != DefaultFindThreshold {
		t.Errorf("the schema says %v (error %v), the default is %v", schema.Properties.Metarouter.Properties.FindThreshold.Default, err, DefaultFindThreshold)
	}
}

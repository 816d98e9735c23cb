package rank

import (
	"testing"

	"github.com/mcp-metarouter/metarouter/selector/internal/text"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

func TestWhy(t *testing.T) {
	for _, tc := range []struct {
		e    Explanation
		want string
	}{
		{Explanation{}, ""},
		{Explanation{Words: []WordShare{
			{Word: "convert", Fields: map[string]float64{"name": 0.9, "description": 0.1}},
			{Word: "feetz", Fields: map[string]float64{"parameters": 1}},
			{Word: "units", Fields: map[string]float64{"name": 1}},
		}}, `its name has "convert" and "units", its parameters have "feetz"`},
		{Explanation{Features: []FeatureShare{{Name: "meaning", Value: 0.7}}}, "its meaning is near"},
	} {
		expect.Equal(t, tc.e.Why(), tc.want, "why")
	}
}

// Words are as the task has them.
func TestWordsAreWhole(t *testing.T) {
	spell := text.Speller("Searching libraries of units")
	for stem, want := range map[string]string{"search": "Searching", "librari": "libraries", "unit": "units", "xyz": "xyz"} {
		expect.Equal(t, spell(stem), want, "the word")
	}
}

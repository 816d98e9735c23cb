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
			{Word: "unit", Fields: map[string]float64{"name": 1}},
		}}, `its name has "convert" and "units", its parameters have "feetz"`},
		{Explanation{Features: []FeatureShare{{Name: "meaning", Value: 0.7}}}, "its meaning is near"},
	} {
		tc.e.say(text.Speller("convert units of feet"))
		expect.Equal(t, tc.e.Why(), tc.want, "why")
	}
}

// Words are as the task has them.
func TestWordsAreWhole(t *testing.T) {
	e := Explanation{Words: []WordShare{{Word: "search"}}, Missing: []string{"librari", "xyz"}}
	e.say(text.Speller("Searching libraries"))
	expect.Equal(t, e.Words[0].Word, "Searching", "the word")
	expect.Deep(t, e.Missing, []string{"libraries", "xyz"}, "missing")
}

package selector

import (
	"slices"
	"testing"

	"github.com/mcp-metarouter/metarouter/registry"
)

func TestWhy(t *testing.T) {
	for _, tc := range []struct {
		e    Explanation
		want string
	}{
		{Explanation{}, ""},
		{Explanation{Words: []WordShare{
			{Word: "convert", As: []string{"change"}, Itself: true, Fields: map[string]float64{"name": 0.9, "description": 0.1}},
			{Word: "feetz", Itself: true, Fields: map[string]float64{"parameters": 1}},
			{Word: "unit", As: []string{"measure"}, Fields: map[string]float64{"name": 1}},
		}}, `its name has "convert" and a synonym of "units", its parameters have "feet"`},
		{Explanation{Features: []FeatureShare{{Name: "meaning", Value: 0.7}, {Name: "use", Value: 0.1}}},
			"its meaning is near; it did well for such tasks before"},
	} {
		tc.e.say(speller("convert units of feet"), nil)
		if got := tc.e.Why(); got != tc.want {
			t.Errorf("%q, want %q", got, tc.want)
		}
	}
}

// A word of the task stands for its stem; what only begins alike does not.
func TestUnstemmed(t *testing.T) {
	for _, tc := range []struct{ stem, task, want string }{
		{"librari", "a good library", "library"}, {"move", "Moving house", "Moving"}, {"read", "lies die Datei", "read"},
		{"db", "das ist alles", "db"}, {"go", "give it", "go"}, {"größ", "die Größe", "Größe"}, {"", "a b", ""},
	} {
		if got := unstemmed(tc.stem, tc.task); got != tc.want {
			t.Errorf("%q in %q: %q, want %q", tc.stem, tc.task, got, tc.want)
		}
	}
}

// What a word stands for is told in whole words too.
func TestSynonymsAreWhole(t *testing.T) {
	e := Explanation{Words: []WordShare{{Word: "search", As: []string{"queri", "find"}}}, Missing: []string{"librari", "xyz"}}
	e.say(speller("Searching libraries"), &registry.NormalizedTool{Definition: []byte(`{"name":"run_query","inputSchema":{}}`)})
	if w := e.Words[0]; w.Word != "Searching" || !slices.Equal(w.As, []string{"query", "find"}) || !slices.Equal(e.Missing, []string{"libraries", "xyz"}) {
		t.Errorf("%+v", e)
	}
}

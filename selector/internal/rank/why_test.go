package rank

import (
	"slices"
	"testing"

	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/selector/internal/text"
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
		{Explanation{Features: []FeatureShare{{Name: "meaning", Value: 0.7}, {Name: "server", Value: 1}}},
			"its meaning is near; the task names its server"},
	} {
		tc.e.say(text.Speller("convert units of feet"), nil)
		if got := tc.e.Why(); got != tc.want {
			t.Errorf("%q, want %q", got, tc.want)
		}
	}
}

// Synonyms are whole words, too.
func TestSynonymsAreWhole(t *testing.T) {
	e := Explanation{Words: []WordShare{{Word: "search", As: []string{"queri", "find"}}}, Missing: []string{"librari", "xyz"}}
	e.say(text.Speller("Searching libraries"), &registry.NormalizedTool{Definition: []byte(`{"name":"run_query","inputSchema":{}}`)})
	if w := e.Words[0]; w.Word != "Searching" || !slices.Equal(w.As, []string{"query", "find"}) || !slices.Equal(e.Missing, []string{"libraries", "xyz"}) {
		t.Errorf("%+v", e)
	}
}

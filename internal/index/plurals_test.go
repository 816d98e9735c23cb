package index

import (
	"maps"
	"testing"

	"github.com/mcp-metarouter/metarouter/internal/vectors"
	"github.com/mcp-metarouter/metarouter/registry"
)

func TestNumbers(t *testing.T) {
	for text, want := range map[string]map[string]bool{
		"list my Issues":            {"list": false, "my": false, "issu": true},
		"status of the address":     {"status": false, "of": false, "the": false, "address": false},
		"getUsers":                  {"get": false, "user": true},
		"compare issue with issues": {"compar": false, "with": false}, // both
		"":                          {},
	} {
		if got := make(Stemmer).Numbers(text); !maps.Equal(got, want) {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}

// The bits of a document stand for the words of its name in the order of its terms.
func TestNumbersOfName(t *testing.T) {
	for name, want := range map[string]struct{ plurals, singulars uint16 }{
		"list_issues":     {0b01, 0b10}, // issu, list
		"get_issue":       {0, 0b11},
		"get_news_status": {0b010, 0b101}, // get, news, status
		"issue_of_issues": {0, 0},
	} {
		d := NewDocument(registry.Item{Tool: &registry.NormalizedTool{Server: "s", Name: name, Description: "Aardvarks and zebras"}}, vectors.Embedded())
		if d.Plurals != want.plurals || d.Singulars != want.singulars {
			t.Errorf("%s: %b and %b, want %b and %b", name, d.Plurals, d.Singulars, want.plurals, want.singulars)
		}
	}
}

package analysis

import (
	"maps"
	"testing"
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

package index

import (
	"slices"
	"strings"
	"testing"
)

// Each stem of the list is found, and what is next to it in the order is not.
func TestEnglish(t *testing.T) {
	stems := strings.Split(strings.TrimSuffix(englishText, "\n"), "\n")
	if len(stems) < 40_000 || !slices.IsSorted(stems) {
		t.Fatalf("%d stems, sorted: %v", len(stems), slices.IsSorted(stems))
	}
	for _, stem := range stems {
		for _, other := range []string{stem, stem + "\x00", stem + "q", stem[1:] + "zz", stem[:2]} {
			if _, want := slices.BinarySearch(stems, other); isEnglish(other) != want {
				t.Fatalf("that %q is English is %v, want %v", other, !want, want)
			}
		}
	}
	if isEnglish("") {
		t.Error("an empty word is English")
	}
}

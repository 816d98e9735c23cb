package selector

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/test/expect"
)

// TestFindForeign holds the selector to what it reaches with the lexicon, less
// one task in each language. The tasks were written before the lexicon.
func TestFindForeign(t *testing.T) {
	s := picker(t, readLines(t, "tools.txt")...)
	expect.OK(t, s.Encode(t.Context()))
	for _, test := range []struct {
		language    string
		first, five int // of 30 tasks, how many have their tool as the first, among the first five
	}{
		{"de", 24, 26}, // without the lexicon: 10 first
		{"es", 27, 29}, // without the lexicon: 12 first
		{"zh", 26, 29}, // without the lexicon: 1 first
	} {
		first, five, unsure := 0, 0, 0
		tasks := readLines(t, test.language+".txt")
		for _, line := range tasks {
			want, task, _ := strings.Cut(line, " ")
			r, err := s.Find(t.Context(), Query{Task: task})
			expect.OK(t, err)
			i := slices.IndexFunc(r.Candidates, func(c Candidate) bool { return c.Tool.ID == want })
			if i == 0 {
				first++
			}
			if i >= 0 && i < 5 {
				five++
			}
			if !r.Sure {
				unsure++
			}
		}
		t.Logf("%s: Recall@1 %d, Recall@5 %d, not sure %d of %d", test.language, first, five, unsure, len(tasks))
		if first < test.first || five < test.five || unsure > 12 {
			t.Errorf("%s: want Recall@1 %d, Recall@5 %d, not sure 12", test.language, test.first, test.five)
		}
	}
}

// TestFindForeignNothing has tasks that no tool is for. The selector is sure of one
// for 4 of 24, such as a tool that writes files for writing a poem.
func TestFindForeignNothing(t *testing.T) {
	s := picker(t, readLines(t, "tools.txt")...)
	expect.OK(t, s.Encode(t.Context()))
	selected := 0
	for _, task := range readLines(t, "nothing.txt") {
		r, err := s.Find(t.Context(), Query{Task: task})
		expect.OK(t, err)
		if r.Sure {
			selected++
			t.Logf("%q selects %s (%.2f)", task, r.Candidates[0].Tool.ID, r.Candidates[0].Confidence)
		}
	}
	if selected > 5 {
		t.Errorf("selected a tool for %d tasks", selected)
	}
}

// readLines returns the lines of a file in testdata/foreign.
func readLines(t *testing.T, name string) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "foreign", name))
	expect.OK(t, err)
	return strings.Split(strings.TrimSpace(string(text)), "\n")
}

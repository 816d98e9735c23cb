package selector

import (
	"slices"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/test/expect"
)

func TestPlan(t *testing.T) {
	s := picker(t, append(git, browser...)...)
	for task, want := range map[string][]string{
		"show the commit logs":                                    nil,
		"create a new branch and create a new branch":             nil,
		"take a screenshot of the page, then create a new branch": {"playwright:browser_take_screenshot", "git:git_create_branch"},
		"bake a chocolate cake and paint a wall":                  nil,
	} {
		plan, err := s.Plan(t.Context(), Query{Task: task})
		var got []string
		for _, step := range plan {
			got = append(got, step.Tool.ID)
		}
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %q, error %v; want %q", task, got, err, want)
		}
	}
}

// Words that are misspelt are found all the same, and names are left alone.
func TestTypos(t *testing.T) {
	s := picker(t, append(git, browser...)...)
	for task, want := range map[string]string{
		"take a screnshot of the page": "playwright:browser_take_screenshot",
		"creaet a new brnach":          "git:git_create_branch",
		"navigaet to a url":            "playwright:browser_navigate",
		"SHOW THE COMIT LOGS":          "git:git_log",
	} {
		r, err := s.Find(t.Context(), Query{Task: task})
		if err != nil || r.Abstained || r.Candidates[0].Tool.ID != want {
			t.Errorf("%q: %+v, error %v", task, r.Candidates, err)
		}
	}
}

// The shares of an explanation add up to the score.
func TestExplain(t *testing.T) {
	s := picker(t, append(git, browser...)...)
	const task = "take pictures of the pages with frobnicators"
	r, err := s.Find(t.Context(), Query{Task: task})
	expect.OK(t, err)
	all, err := s.Explain(t.Context(), task, r.Candidates)
	if err != nil || len(all) != len(r.Candidates) {
		t.Fatalf("%d explanations, error %v", len(all), err)
	}
	for i, e := range all {
		said := slices.Clone(e.Missing)
		for _, w := range e.Words {
			said = append(said, w.Word)
		}
		for _, w := range said {
			if !slices.Contains(strings.Fields(task), w) {
				t.Errorf("%q is no word of the task", w)
			}
		}
		sum := 0.0
		for _, f := range e.Features {
			sum += f.Share
			if f.Name == "" {
				t.Error("a feature has no name")
			}
		}
		if sum < 0.999 || sum > 1.001 {
			t.Errorf("%s: the features' shares add up to %v", r.Candidates[i].Tool.ID, sum)
		}
		words := 0.0
		for _, w := range e.Words {
			words += w.Share
			fields := 0.0
			for _, x := range w.Fields {
				fields += x
			}
			if fields < 0.999 || fields > 1.001 {
				t.Errorf("%s: the fields of %s add up to %v", r.Candidates[i].Tool.ID, w.Word, fields)
			}
		}
		if len(e.Words) > 0 && (words < 0.999 || words > 1.001) {
			t.Errorf("%s: the words' shares add up to %v", r.Candidates[i].Tool.ID, words)
		}
		if !slices.Contains(e.Missing, "frobnicators") {
			t.Errorf("missing: %q", e.Missing)
		}
	}
}

package rank

import (
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/internal/index"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/selector/internal/text"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

// catalog returns tools as a collection.
func catalog(t *testing.T, tools ...registry.NormalizedTool) *index.Collection {
	t.Helper()
	offers := make(map[string]registry.Offer)
	for _, tool := range tools {
		tool.ID = registry.ID(tool.Server, tool.Name)
		offers[tool.Server] = registry.Offer{Tools: append(offers[tool.Server].Tools, tool)}
	}
	r := registry.New()
	_, err := r.ReplaceSome(offers)
	expect.OK(t, err)
	x := index.New(r)
	t.Cleanup(func() { x.Close() })
	c, err := x.Tools(t.Context())
	expect.OK(t, err)
	return c
}

// ranked returns the candidates for a task by the names of their tools, and the name of
// the first.
func ranked(task string, c *index.Collection) (byName map[string]Candidate, first string) {
	all := Rank(text.Parse(task), c.Documents(), c, Prior{})
	byName = make(map[string]Candidate)
	for _, candidate := range all {
		byName[candidate.Tool.Name] = candidate
	}
	return byName, all[0].Tool.Name
}

func TestWords(t *testing.T) {
	long := "Sends a letter. " + strings.Repeat("It has pages and rules. ", 80)
	c := catalog(t,
		registry.NormalizedTool{Server: "github", Name: "create_issue", Description: "Create an issue"},
		registry.NormalizedTool{Server: "github", Name: "create_issue_comment_reaction", Description: "Create a reaction to the comment of an issue"},
		registry.NormalizedTool{Server: "github", Name: "list_issues", Description: "List issues"},
		registry.NormalizedTool{Server: "linear", Name: "board", Description: "All issues"},
		registry.NormalizedTool{Server: "far", Name: "deliver", Description: long + "Stamps are bought."},
		registry.NormalizedTool{Server: "near", Name: "supply", Description: "Stamps are bought. " + long},
	)
	for _, tc := range []struct{ task, more, less string }{
		{"create an issue", "create_issue", "list_issues"},
		{"create an issue", "create_issue", "create_issue_comment_reaction"},
		{"issues in Linear", "board", "list_issues"}, // the name of its server
		{"stamps", "supply", "deliver"},              // at the beginning of a long description
		{"post a letter. list all issues", "list_issues", "create_issue"},
	} {
		all, _ := ranked(tc.task, c)
		if more, less := all[tc.more].Features[WordsFeature], all[tc.less].Features[WordsFeature]; more <= less || more >= 1 || less < 0 {
			t.Errorf("%q: %.2f for %s, %.2f for %s", tc.task, more, tc.more, less, tc.less)
		}
	}
	for task, want := range map[string]string{"create an issue": "create_issue", "list issues": "list_issues"} {
		if _, first := ranked(task, c); first != want {
			t.Errorf("%q finds %s first, want %s", task, first, want)
		}
	}
	for f, name := range names {
		if name == "" || labels[f] == "" {
			t.Errorf("feature %d has no name or label", f)
		}
	}
}

// Words of another step do not count against a tool.
func TestStepWords(t *testing.T) {
	c := catalog(t,
		registry.NormalizedTool{Server: "a", Name: "weather", Description: "Weather of a city"},
		registry.NormalizedTool{Server: "a", Name: "book", Description: "Books a flight"},
	)
	alone, _ := ranked("weather of the city", c)
	among, _ := ranked("book the flight. weather of the city", c)
	if a, b := alone["weather"].Features[WordsFeature], among["weather"].Features[WordsFeature]; a != b || a == 0 {
		t.Errorf("%v alone, %v among other steps", a, b)
	}
}

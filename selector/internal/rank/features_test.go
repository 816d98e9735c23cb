package rank

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/internal/index"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/selector/internal/text"
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
	if _, err := r.ReplaceAll(offers); err != nil {
		t.Fatal(err)
	}
	x := index.New(r)
	t.Cleanup(func() { x.Close() })
	c, err := x.Tools(t.Context())
	if err != nil {
		t.Fatal(err)
	}
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

func TestFeatures(t *testing.T) {
	readOnly := true
	c := catalog(t,
		registry.NormalizedTool{Server: "github", Name: "create_issue", Description: "Create an issue"},
		registry.NormalizedTool{Server: "github", Name: "create_issue_comment_reaction", Description: "Create a reaction to the comment of an issue"},
		registry.NormalizedTool{Server: "github", Name: "list_issues", Description: "List issues"},
		registry.NormalizedTool{Server: "linear", Name: "board", Description: "All issues", Hints: registry.Hints{ReadOnly: &readOnly}},
		registry.NormalizedTool{Server: "devtools", Name: "performance_start_trace", Description: "Starts a performance trace recording"},
		registry.NormalizedTool{Server: "devtools", Name: "performance_stop_trace", Description: "Stops the active performance trace recording"},
	)
	for _, tc := range []struct {
		task, more, less string // the tools of which the first has more of the feature
		feature          Feature
	}{
		{"create an issue", "create_issue", "list_issues", VerbFeature},
		{"create an issue", "list_issues", "create_issue", ConflictFeature},
		{"create an issue", "board", "create_issue", ConflictFeature}, // it says that it only reads
		{"show me the issues", "create_issue", "list_issues", ConflictFeature},
		{"record a performance trace", "performance_stop_trace", "performance_start_trace", ConflictFeature},
		{"create an issue", "create_issue", "create_issue_comment_reaction", NameFeature},
		{"issues in Linear", "board", "list_issues", ServerFeature},
	} {
		all, _ := ranked(tc.task, c)
		if more, less := all[tc.more].Features[tc.feature], all[tc.less].Features[tc.feature]; more <= less {
			t.Errorf("%q: %s is %.2f for %s, %.2f for %s", tc.task, names[tc.feature], more, tc.more, less, tc.less)
		}
	}
	for task, want := range map[string]string{
		"record a performance trace": "performance_start_trace",
		"create an issue":            "create_issue",
		"show me the issues":         "list_issues",
	} {
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

// The whole task counts next to the step that fits best.
func TestWholeTask(t *testing.T) {
	c := catalog(t,
		registry.NormalizedTool{Server: "a", Name: "weather", Description: "Weather of a city"},
		registry.NormalizedTool{Server: "a", Name: "trip", Description: "Plans a trip: flights, hotels and the weather of a city"},
	)
	all, _ := ranked("weather of the city. flights for me. hotels for me.", c)
	if all["trip"].Features[TaskFeature] != 1 || all["weather"].Features[TaskFeature] >= all["weather"].Features[StepFeature] {
		t.Errorf("trip %.2f, weather %.2f", all["trip"].Features, all["weather"].Features)
	}
}

// A task about many things is for the tool for many, one about one thing for the tool for one.
func TestNumber(t *testing.T) {
	c := catalog(t, registry.NormalizedTool{Server: "s", Name: "list_notifications"}, registry.NormalizedTool{Server: "s", Name: "get_notification_details"})
	for task, differs := range map[string]string{
		"my notifications": "get_notification_details", "the notification": "list_notifications", "meine Benachrichtigungen": "",
	} {
		all, _ := ranked(task, c)
		for name, candidate := range all {
			want := 0.0
			if name == differs {
				want = 1
			}
			if got := candidate.Features[NumberFeature]; got != want {
				t.Errorf("%q and %s: %v, want %v", task, name, got, want)
			}
		}
	}
}

// A path leaves only its extension, which tools may have as an example.
func TestTaskOfAPath(t *testing.T) {
	schema := json.RawMessage(`{"type":"object","properties":{"path":{"type":"string","description":"such as *.md"}},"required":["path"]}`)
	c := catalog(t,
		registry.NormalizedTool{Server: "f", Name: "read_file", Description: "Read the contents of a file", InputSchema: json.RawMessage(`{"type":"object","properties":{"path":{"type":"string"}},"required":["path"]}`)},
		registry.NormalizedTool{Server: "f", Name: "search_files", Description: "Find files by name", InputSchema: schema},
		registry.NormalizedTool{Server: "u", Name: "convert", Description: "Convert units"},
	)
	for _, task := range []string{"what is in notes.md", "what is in notes.txt", "what does /tmp/notes.txt say?"} {
		all, first := ranked(task, c)
		if first != "read_file" || !(all[first].Score > 0 && all[first].Confidence > AbstainBelow) {
			t.Errorf("%q finds %s with score %v and confidence %v", task, first, all[first].Score, all[first].Confidence)
		}
	}
}

// The extension of a file speaks for tools that take a file, not for those that have it in their
// name; the name of a server that is an everyday word says nothing of its tools; and a word at
// the end of a long description says less than one at its beginning.
func TestWordsOfOtherThings(t *testing.T) {
	path := json.RawMessage(`{"type":"object","properties":{"path":{"type":"string"}}}`)
	long := "Sends a letter. " + strings.Repeat("It has pages and rules. ", 80)
	c := catalog(t,
		registry.NormalizedTool{Server: "office", Name: "write_pdf", Description: "Writes a document", InputSchema: path},
		registry.NormalizedTool{Server: "post", Name: "attach_file", Description: "Attaches a file to a letter", InputSchema: path},
		registry.NormalizedTool{Server: "memory", Name: "read_graph", Description: "Reads the knowledge graph"},
		registry.NormalizedTool{Server: "system", Name: "used_ram", Description: "Says how much memory is used"},
		registry.NormalizedTool{Server: "far", Name: "deliver", Description: long + "Stamps are bought."},
		registry.NormalizedTool{Server: "near", Name: "deliver", Description: "Stamps are bought. " + long},
	)
	for task, want := range map[string]string{
		"attach my letter cv.pdf": "post:attach_file", "how much memory": "system:used_ram", "stamps": "near:deliver",
	} {
		all := Rank(text.Parse(task), c.Documents(), c, Prior{})
		if got := all[0].Tool.ID; got != want {
			t.Errorf("%q: %s, want %s", task, got, want)
		}
		for _, other := range all {
			if other.Tool.Name == "write_pdf" && other.Features[NameFeature] > 0 || other.Tool.Name == "read_graph" && other.Features[CoverageFeature] > 0 {
				t.Errorf("%q: %s has features %v", task, other.Tool.ID, other.Features)
			}
		}
	}
}

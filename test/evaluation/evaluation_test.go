package evaluation

import (
	"math"
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"

	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

func TestScore(t *testing.T) {
	q := Example{Relevant: []Relevant{{"a", "x", ""}, {"b", "y", "either"}, {"c", "z", "either"}, {"a", "x", ""}}}
	two := 1 + 1/math.Log2(3)
	for _, test := range []struct {
		ranked []string
		want   Scores
	}{
		{nil, Scores{}},
		{[]string{"a:x", "b:y"}, Scores{0.5, 1, 1, 1, 1, 1, 1, 1}},
		{[]string{"c:z", "b:y", "a:x"}, Scores{0.5, 1, 1, 1, 1.5 / two, 1.5 / two, 1, (1 + 2.0/3) / 2}},
		{[]string{"n:o", "b:y"}, Scores{0, 0.5, 0.5, 0.5, 1 / math.Log2(3) / two, 1 / math.Log2(3) / two, 0.5, 0.25}},
		{[]string{"1", "2", "3", "4", "5", "a:x"}, Scores{0, 0, 0, 0.5, 0, 1 / math.Log2(7) / two, 1.0 / 6, 1.0 / 6 / 2}},
	} {
		got := q.Score(test.ranked)
		for i, x := range got.fields() {
			if want := *test.want.fields()[i]; math.Abs(*x-want) > 1e-12 {
				t.Errorf("%v: measure %d is %v, want %v", test.ranked, i, *x, want)
			}
		}
	}
	expect.Equal(t, (&Example{}).Score([]string{"a:x"}), (Scores{}), "a query that needs nothing")
	expect.Equal(t, Mean([]Scores{{Recall1: 1}, {MRR: 0.5}}), (Scores{Recall1: 0.5, MRR: 0.25}), "mean")
}

func TestRead(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		expect.OK(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	log := zaptest.NewLogger(t)
	tools, err := ReadCatalog(log, write("a.jsonl", `{"server":"s","name":"browser_navigate","description":"Open a page"}

{"server":"s","name":"","description":"nameless"}
{"server":"s","name":"odd","input_schema":{"type":"str","properties":{"a":{"type":"string"}}}}
`), write("b.jsonl", `{"server":"s","name":"odd","description":"another one"}`))
	if err != nil || len(tools) != 2 || tools[0].ID != "s:browser_navigate" || len(tools[0].Capabilities) == 0 || tools[1].Description != "" {
		t.Fatalf("%+v, %v", tools, err)
	}
	r, err := Register(tools)
	if err != nil || len(r.Snapshot().Tools()) != 2 {
		t.Errorf("registered %v, %v", r.Snapshot().Tools(), err)
	}
	queries, err := ReadExamples(write("q.jsonl", `{"id":"1","query":"open it","relevant":[{"server":"s","name":"odd","alt":"x"}]}`))
	if err != nil || len(queries) != 1 || queries[0].Text != "open it" || !queries[0].Needs("s") || queries[0].Needs("t") {
		t.Errorf("%+v, %v", queries, err)
	}
	bad := write("bad.jsonl", "{}\n{\n")
	for _, err := range []error{
		func() error { _, err := ReadCatalog(log, write("c.jsonl", "{}\n"), bad); return err }(),
		func() error { _, err := ReadExamples(bad); return err }(),
	} {
		expect.Error(t, err, "bad.jsonl:2:")
	}
	if _, err := ReadExamples(filepath.Join(dir, "none")); err == nil {
		t.Error("no error for a file that is not there")
	}
}

// An evaluation encodes all tools first.
func TestEvaluate(t *testing.T) {
	var c TaskCatalog
	for _, name := range []string{"close_tab", "open_page", "take_screenshot", "press_key"} {
		c.Tools = append(c.Tools, registry.NormalizedTool{ID: "browser:" + name, Server: "browser", Name: name, InputSchema: []byte(`{"type":"object"}`)})
	}
	c.Tasks = []Task{{ID: "1", Kind: "short", Text: "a picture of what I see", Right: []string{"browser:take_screenshot"}}}
	tasks, err := EvaluateTasks(t.Context(), []TaskCatalog{c}, 0.5, zap.NewNop())
	if err != nil || tasks.Outcomes[0].Rank != 1 {
		t.Errorf("%+v, %v", tasks, err)
	}
	examples := []Example{{ID: "1", Text: "a picture of what I see", Relevant: []Relevant{{Server: "browser", Name: "take_screenshot"}}}}
	if e, err := Evaluate(t.Context(), c.Tools, examples, 10, zap.NewNop()); err != nil || e.Scores.Recall1 != 1 {
		t.Errorf("%+v, %v", e, err)
	}
}

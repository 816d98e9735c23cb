package capability_test

import (
	"bufio"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/mcp-metarouter/metarouter/discovery"
	"github.com/mcp-metarouter/metarouter/internal/capability"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

// TestLabels compares inferred tags with those that a person gave to 506 tools of
// 38 published servers, by reading them. testdata/labels.jsonl holds what a tool
// must bear and what it may; METAROUTER_REAL_LISTS names the folder of the
// servers' tool lists.
func TestLabels(t *testing.T) {
	folder := os.Getenv("METAROUTER_REAL_LISTS")
	if folder == "" {
		t.Skip("METAROUTER_REAL_LISTS names no folder of tool lists")
	}
	taxonomy := capability.NewTaxonomy(nil)
	lists := make(map[string]map[string]json.RawMessage)
	byTag := make(map[string]*judgement)
	var all judgement
	file, err := os.Open("testdata/labels.jsonl")
	expect.OK(t, err)
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		var label struct {
			List, Server, Tool string
			Must, May          []string
		}
		expect.OK(t, json.Unmarshal(lines.Bytes(), &label))
		if lists[label.List] == nil {
			lists[label.List] = toolsIn(t, filepath.Join(folder, label.List+".json"))
		}
		tool, err := discovery.Normalize(label.Server, lists[label.List][label.Tool], nil)
		expect.OK(t, err, "%s:%s", label.List, label.Tool)
		inferred := taxonomy.Infer(tool)
		for _, tag := range taxonomy.Tags() {
			if byTag[tag] == nil {
				byTag[tag] = &judgement{}
			}
			has, must := slices.Contains(inferred, tag), slices.Contains(label.Must, tag)
			if !must && slices.Contains(label.May, tag) {
				continue
			}
			byTag[tag].add(has, must)
			all.add(has, must)
		}
	}
	for _, tag := range slices.Sorted(maps.Keys(byTag)) {
		if j := byTag[tag]; j.right+j.wrong+j.missed > 0 {
			t.Logf("%-16s %3d right %3d wrong %3d missed, precision %.2f recall %.2f", tag, j.right, j.wrong, j.missed, j.precision(), j.recall())
		}
	}
	t.Logf("all: precision %.3f, recall %.3f", all.precision(), all.recall())
	if all.precision() < 0.95 || all.recall() < 0.94 {
		t.Errorf("precision %.3f, recall %.3f", all.precision(), all.recall())
	}
	if j := byTag["delete"]; j.missed > 0 {
		t.Errorf("%d tools delete things and are not known to", j.missed)
	}
}

// A judgement counts tags.
type judgement struct{ right, wrong, missed int }

func (j *judgement) add(has, must bool) {
	switch {
	case has && must:
		j.right++
	case has:
		j.wrong++
	case must:
		j.missed++
	}
}

func (j *judgement) precision() float64 { return float64(j.right) / float64(max(1, j.right+j.wrong)) }
func (j *judgement) recall() float64    { return float64(j.right) / float64(max(1, j.right+j.missed)) }

func toolsIn(t *testing.T, path string) map[string]json.RawMessage {
	t.Helper()
	b, err := os.ReadFile(path)
	expect.OK(t, err)
	var list struct{ Tools []json.RawMessage }
	expect.OK(t, json.Unmarshal(b, &list))
	tools := make(map[string]json.RawMessage)
	for _, raw := range list.Tools {
		var name struct{ Name string }
		expect.OK(t, json.Unmarshal(raw, &name))
		tools[name.Name] = raw
	}
	return tools
}

// Few tools of published servers that declare that they only read are doubted.
func TestDoubtRealLists(t *testing.T) {
	folder := os.Getenv("METAROUTER_REAL_LISTS")
	if folder == "" {
		t.Skip("METAROUTER_REAL_LISTS names no folder of tool lists")
	}
	files, err := filepath.Glob(filepath.Join(folder, "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no lists in %s: %v", folder, err)
	}
	x, declared, doubted := capability.NewTaxonomy(nil), 0, 0
	for _, file := range files {
		for name, raw := range toolsIn(t, file) {
			tool, err := discovery.Normalize("s", raw, nil)
			if err != nil || !tool.Hints.IsReadOnly() {
				continue
			}
			declared++
			if why := x.Doubt(tool); why != "" {
				doubted++
				t.Logf("%s: %s", name, why)
			}
		}
	}
	t.Logf("%d of %d are doubted", doubted, declared)
	if doubted*10 > declared {
		t.Errorf("%d of %d are doubted", doubted, declared)
	}
}

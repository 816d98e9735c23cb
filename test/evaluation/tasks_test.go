package evaluation

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/zap/zaptest"

	"github.com/mcp-metarouter/metarouter/test/expect"
)

func TestReadTasks(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		expect.OK(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	write("@a+files.json", `{"package": "@a/files", "tools": [{"name": "delete_file", "description": "Delete a file", "inputSchema": {"type": "object"}}, {"name": ""}]}`)
	catalog := write("catalog.json", `{"servers": [{"name": "disk", "list": "@a+files"}]}`)
	tasks := write("tasks.jsonl", `{"id": "1", "kind": "short", "task": "rm it", "right": ["disk:delete_file"]}
{"id": "2", "kind": "none", "task": "fly", "right": []}
`)
	c, err := ReadTasks(zaptest.NewLogger(t), catalog, tasks, dir)
	if err != nil || c.Name != filepath.Base(dir) || len(c.Tasks) != 2 || len(c.Tools) != 1 || c.Tools[0].ID != "disk:delete_file" || len(c.Tools[0].Capabilities) == 0 {
		t.Fatalf("%+v, %v", c, err)
	}
	for _, test := range []struct{ catalog, tasks, want string }{
		{catalog, write("a", `{"id": "1", "kind": "short", "task": "rm", "right": ["disk:rm"]}`), `a:1: task "1": the catalog has no tool "disk:rm"`},
		{catalog, write("b", `{"id": "1", "kind": "none", "task": "rm", "right": ["disk:delete_file"]}`), `b:1: task "1" of kind "none" has 1 right`},
		{catalog, write("c", `{"id": "1", "kind": "short", "task": "rm"}`), `of kind "short" has 0 right`},
		{catalog, write("d", `{"id": "1", "task": "rm"}`), `task "1": write {"id", "kind"`},
		{write("e", `{}`), tasks, `e: no servers`},
		{write("f", `[`), tasks, `f: `},
		{write("g", `{"servers": [{"name": "disk", "list": "none"}]}`), tasks, `server "disk" of`},
	} {
		_, err := ReadTasks(zaptest.NewLogger(t), test.catalog, test.tasks, dir)
		expect.Error(t, err, test.want, "error")
	}
}

func TestSummarize(t *testing.T) {
	r := Summarize([]Outcome{
		{Catalog: "a", Kind: NoTool, Confidence: 0.1, Refused: true, Idle: true, IdleOrHarm: true},
		{Catalog: "a", Kind: "short", Rank: 1, Confidence: 0.9},
		{Catalog: "b", Kind: "short", Rank: 3, Confidence: 0.2, Refused: true, Idle: true, IdleOrHarm: true},
		{Catalog: "b", Kind: "short", Rank: 4, Confidence: 0.6, IdleOrHarm: true},
		{Catalog: "b", Kind: "long", Rank: 0, Confidence: 0.7},
	})
	var names []string
	for _, k := range r.Kinds {
		names = append(names, k.Name)
	}
	expect.Equal(t, strings.Join(names, ","), "short,long,none,"+WithTool, "kinds")
	short := r.Kinds[0]
	for _, test := range []struct {
		got  Share
		want float64
	}{
		{short.First, 1.0 / 3}, {short.InThree, 2.0 / 3}, {short.Refused, 1.0 / 3}, {short.NotRun, 1.0 / 3}, {short.NotRunOrUnfit, 2.0 / 3},
		{r.Kinds[2].Refused, 1}, {r.Kinds[3].First, 1.0 / 4}, {r.Catalogs[0].First, 1}, {r.Catalogs[1].First, 0},
	} {
		if math.Abs(test.got.Value-test.want) > 1e-12 || test.got.Low > test.got.Value || test.got.High < test.got.Value {
			t.Errorf("share %+v, want %v", test.got, test.want)
		}
	}
	if short.First.Low != 0 || short.First.High != 1 || r.Kinds[2].Refused.Low != 1 {
		t.Errorf("intervals %+v, %+v", short.First, r.Kinds[2].Refused)
	}
	expect.Equal(t, (Share{0.404, 0.31, 0.49}).String(), "40 (31–49)", "a share as text")
	// Each is a bin of its own.
	if want := (0.1 + 0.1 + 0.2 + 0.6 + 0.7) / 5; math.Abs(r.CalibrationError-want) > 1e-12 {
		t.Errorf("calibration error %v, want %v", r.CalibrationError, want)
	}
	expect.Equal(t, CalibrationError(nil), 0, "the calibration error of nothing")
}

// Twenty outcomes in ten bins: two confident ones of which one is right are half wrong.
func TestCalibrationErrorPools(t *testing.T) {
	var all []Outcome
	for i := range 20 {
		all = append(all, Outcome{Confidence: 0.5, Rank: i % 2})
	}
	if got := CalibrationError(all); math.Abs(got) > 1e-12 {
		t.Errorf("calibration error %v, want 0", got)
	}
}

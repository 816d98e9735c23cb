package rank

import (
	"encoding/json"
	"testing"

	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/selector/internal/text"
)

func TestTypeFeature(t *testing.T) {
	tool := func(name, description, parameter string, required bool) registry.NormalizedTool {
		schema := `{"type":"object","properties":{"` + parameter + `":{"type":"string"}}}`
		if required {
			schema = `{"type":"object","properties":{"` + parameter + `":{"type":"string"}},"required":["` + parameter + `"]}`
		}
		return registry.NormalizedTool{Server: "s", Name: name, Description: description, InputSchema: json.RawMessage(schema)}
	}
	c := catalog(t,
		tool("page", "Open a page", "url", false),
		tool("file", "Open a file", "path", false),
		tool("table", "Open a CSV table", "path", false),
		tool("must", "Open a file", "path", true),
		registry.NormalizedTool{Server: "s", Name: "nothing", Description: "Open it"},
	)
	value := func(task text.Task, name string) float64 {
		for _, candidate := range Rank(task, c.Documents(), c, Prior{}) {
			if candidate.Tool.Name == name {
				return candidate.Features[TypeFeature]
			}
		}
		t.Fatalf("no candidate %s", name)
		return 0
	}
	url := text.Parse("open https://example.com/a")
	path := text.Parse("open the file /tmp/a.csv")
	none := text.Parse("open it")
	for _, tc := range []struct {
		task       text.Task
		more, less string
	}{
		{url, "page", "file"},
		{path, "file", "page"},
		{path, "table", "file"},   // its words have the extension
		{path, "file", "nothing"}, // it takes no values
		{none, "file", "must"},    // which requires a path
		{none, "nothing", "must"},
	} {
		if more, less := value(tc.task, tc.more), value(tc.task, tc.less); more <= less {
			t.Errorf("%q: %.2f for %s, %.2f for %s", tc.task.Text, more, tc.more, less, tc.less)
		}
	}
	if x := value(none, "nothing"); x != 0 {
		t.Errorf("without values it is %.2f", x)
	}
	for kind, w := range typeWeights {
		if w.hit < 0 || w.missed > 0 {
			t.Errorf("type %d: %+v", kind, w)
		}
	}
}

func TestHostNamesServer(t *testing.T) {
	c := catalog(t,
		registry.NormalizedTool{Server: "github", Name: "read", Description: "Read"},
		registry.NormalizedTool{Server: "gitlab", Name: "load", Description: "Read"},
		registry.NormalizedTool{Server: "mcp-server", Name: "see", Description: "Read"},
	)
	all, _ := ranked("read https://github.com/a/b with the mcp server", c)
	for name, want := range map[string]float64{"read": 1, "load": 0, "see": 0} {
		if got := all[name].Features[ServerFeature]; got != want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}

package tools

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/internal/exposure"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

type noScripts struct{ Scripts }

func TestOwnDefinitions(t *testing.T) {
	readOnly := map[string]bool{"find_tools": true, "describe_tools": true, "call_read_only_tool": true, "read_result": true, "list_categories": true, "classify_text": true, "call_tool": false, "route_task": false, "run_script": false}
	if s := New(Options{Kept: NewKept()}); len(s.own) != len(readOnly)-1 || s.own["run_script"].run != nil {
		t.Errorf("%d tools without scripts", len(s.own))
	}
	s := New(Options{Kept: NewKept(), Scripts: noScripts{}})
	expect.Equal(t, len(s.own), len(readOnly), "tools")
	for name, own := range s.own {
		var d struct {
			Name, Description string
			InputSchema       struct {
				Type                 string
				AdditionalProperties *bool
			}
			Annotations map[string]any
			Meta        map[string]any `json:"_meta"`
		}
		expect.OK(t, json.Unmarshal(own.Definition, &d))
		if !exposure.IsOwn(name) {
			t.Errorf("%s is not kept for us", name)
		}
		if d.Name != name || own.run == nil || d.Description == "" || d.InputSchema.Type != "object" || d.InputSchema.AdditionalProperties == nil || *d.InputSchema.AdditionalProperties {
			t.Errorf("%s: %+v", name, d)
		}
		a := d.Annotations
		if a["readOnlyHint"] != readOnly[name] || a["destructiveHint"] == readOnly[name] {
			t.Errorf("%s: annotations %v", name, a)
		}
		categories := name == "list_categories" || name == "classify_text"
		if loaded := d.Meta["anthropic/alwaysLoad"] == true; loaded == categories {
			t.Errorf("%s: Claude Code always loads its definition: %v", name, loaded)
		}
		if strings.ContainsAny(string(own.Definition), "\n\r") {
			t.Errorf("%s: the definition has a line end", name)
		}
	}
}

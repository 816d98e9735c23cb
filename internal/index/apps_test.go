package index

import (
	"encoding/json"
	"testing"

	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

// A tool that models may not see is not indexed.
func TestToolsForModels(t *testing.T) {
	r := open(t)
	var tools []registry.NormalizedTool
	for name, visibility := range map[string]string{"app": `["app"]`, "none": `[]`, "both": `["model","app"]`, "wrong": `"app"`} {
		one := tool("a", name, "Shows the orders")
		one.Definition = json.RawMessage(`{"_meta":{"ui":{"visibility":` + visibility + `}}}`)
		tools = append(tools, one)
	}
	replace(t, r, "a", tools...)
	c, err := r.Tools(t.Context())
	expect.OK(t, err)
	var found []string
	for _, d := range c.Documents() {
		found = append(found, d.Tool.Name)
	}
	if len(found) != 2 || found[0] != "both" || found[1] != "wrong" {
		t.Errorf("found %v", found)
	}
}

package tools

import (
	"encoding/json"
	"testing"

	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/selector"
	"github.com/mcp-metarouter/metarouter/test/schemas"
)

// TestHostileSchemas checks that the signature of a tool with a hostile schema, and what it misses, are
// made in a bounded number of steps, and are short. Without the bounds, the test does not end.
func TestHostileSchemas(t *testing.T) {
	for name, schema := range schemas.Hostile() {
		tool := &registry.NormalizedTool{Name: "a", InputSchema: json.RawMessage(schema), Definition: json.RawMessage(`{"outputSchema":` + schema + `}`)}
		if n := len(signature(tool)); n > 4<<10 {
			t.Errorf("%s: the signature has %d bytes", name, n)
		}
		if missing := selector.Missing(tool, json.RawMessage(`{"a":1}`)); len(missing) > 100 {
			t.Errorf("%s: %d arguments are missing", name, len(missing))
		}
	}
}

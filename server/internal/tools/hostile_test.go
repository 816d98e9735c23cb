package tools

import (
	"encoding/json"
	"testing"

	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/selector"
	"github.com/mcp-metarouter/metarouter/test/schemas"
)

// TestHostileSchemas checks that the signature of a tool with a hostile schema, what it misses and
// the form for it are made in a bounded number of steps, and are short. Without the bounds, the
// test does not end.
func TestHostileSchemas(t *testing.T) {
	for name, schema := range schemas.Hostile() {
		tool := &registry.NormalizedTool{Name: "a", InputSchema: json.RawMessage(schema), Definition: json.RawMessage(`{"outputSchema":` + schema + `}`)}
		if n := len(signature(tool)); n > 4<<10 {
			t.Errorf("%s: the signature has %d bytes", name, n)
		}
		missing := selector.Missing(tool, json.RawMessage(`{"a":1}`))
		if form, _ := formFor(tool, missing); len(missing) > 100 || len(form) > 300_000 {
			t.Errorf("%s: %d arguments are missing, and the form has %d bytes", name, len(missing), len(form))
		}
	}
}

package discovery

import (
	"encoding/json"
	"testing"

	"github.com/mcp-metarouter/metarouter/internal/capability"
	"github.com/mcp-metarouter/metarouter/test/schemas"
)

// TestHostileSchemas checks that the definitions of tools with hostile schemas are read in a bounded
// number of steps, and do not grow much. Without the bounds, the test does not end.
func TestHostileSchemas(t *testing.T) {
	taxonomy := capability.NewTaxonomy(nil)
	for name, schema := range schemas.Hostile() {
		raw := json.RawMessage(`{"name":"t","description":"Reads.","inputSchema":` + schema + `,"outputSchema":` + schema + `}`)
		if len(raw) > maxBytes {
			raw = json.RawMessage(`{"name":"t","description":"Reads.","inputSchema":` + schema + `}`)
		}
		tool, err := Normalize("s", raw, nil)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if n := len(tool.Definition) + len(tool.Flat); n > 2*maxBytes {
			t.Errorf("%s: the definitions have %d bytes", name, n)
		}
		taxonomy.Infer(tool)
	}
}

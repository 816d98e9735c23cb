package index

import (
	"encoding/json"
	"testing"

	"github.com/mcp-metarouter/metarouter/internal/analysis"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/test/schemas"
)

// TestHostileSchemas checks that tools with hostile schemas are indexed in a bounded number of
// steps, and with few words.
func TestHostileSchemas(t *testing.T) {
	for name, schema := range schemas.Hostile() {
		d := newDocument(registry.Item{Tool: &registry.NormalizedTool{Name: "a", Server: "s", InputSchema: json.RawMessage(schema)}}, make(analysis.Stemmer))
		if n := len(d.Terms); n > int(NumFields)*maxFieldWords {
			t.Errorf("%s: %d words", name, n)
		}
	}
}

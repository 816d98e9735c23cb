package schema

import (
	"encoding/json"
	"testing"

	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/test/schemas"
)

// TestHostileSchemas checks that arguments for hostile schemas are made in a bounded number of
// steps, and are small.
func TestHostileSchemas(t *testing.T) {
	for name, schema := range schemas.Hostile() {
		if args := ExampleArguments(json.RawMessage(schema), nil); !wire.Valid(args) || len(args) > 100_000 {
			t.Errorf("%s: %d bytes: %.100s", name, len(args), args)
		}
	}
}

package execute

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"go.uber.org/zap"

	hostile "github.com/mcp-metarouter/metarouter/test/schemas"
)

// TestHostileSchemas checks that arguments are compared with hostile schemas, and translated for
// them, in a bounded number of steps. Without the bounds, the test does not end.
func TestHostileSchemas(t *testing.T) {
	var many strings.Builder
	for i := range 20_000 {
		fmt.Fprintf(&many, `,"P%d":1`, i)
	}
	args := json.RawMessage(`{"a":{"a":{"a":{"a":{"b":[[[]]]}}}}` + many.String() + `}`)
	e := New(Options{Log: zap.NewNop()})
	for name, schema := range hostile.Hostile() {
		if c := e.Fit(t.Context(), tool(schema), args); len(c.Faults) > 10 {
			t.Errorf("%s: %d faults", name, len(c.Faults))
		}
	}
}

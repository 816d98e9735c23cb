package execute

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/test/expect"
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
		if c := e.Check(t.Context(), tool(schema), Renamed(args, tool(schema))); len(c.Faults) > 10 {
			t.Errorf("%s: %d faults", name, len(c.Faults))
		}
	}
}

// TestLargeArguments checks that large arguments wait until others are compared, no longer than
// their call, and that small ones do not wait.
func TestLargeArguments(t *testing.T) {
	e := New(Options{Log: zap.NewNop()})
	wrong := tool(`{"required":["b"]}`)
	large := json.RawMessage(`{"a":"` + strings.Repeat("x", largeArguments) + `"}`)
	for range maxLarge {
		e.schemas.large <- struct{}{}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if c := e.Check(ended, wrong, large); !c.Unchecked || c.passed() {
		t.Errorf("while others are compared: %+v", c)
	}
	if c := e.Check(t.Context(), wrong, json.RawMessage(`{}`)); len(c.Faults) == 0 || c.Unchecked {
		t.Error("small arguments were not compared")
	}
	<-e.schemas.large
	if c := e.Check(t.Context(), wrong, large); len(c.Faults) == 0 || c.Unchecked {
		t.Error("large arguments were not compared")
	}
	expect.Equal(t, len(e.schemas.large), maxLarge-1, "are being compared")
}

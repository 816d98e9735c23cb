package httpd

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/test/expect"
	"github.com/mcp-metarouter/metarouter/test/schemas"
)

// TestHostileSchemas checks that headers are compared with the arguments of hostile schemas in a
// bounded number of steps. Without the bounds, the test does not end.
func TestHostileSchemas(t *testing.T) {
	var many strings.Builder
	for i := range 100_000 {
		fmt.Fprintf(&many, `,"q%d":1`, i)
	}
	args := json.RawMessage(`{"a":{"a":1}` + many.String() + `}`)
	for name, schema := range schemas.Hostile() {
		want := name == "deep and wide" // asks for a header
		expect.Equal(t, checkProperties(http.Header{}, json.RawMessage(schema), args) != nil, want, "%s", name)
	}
}

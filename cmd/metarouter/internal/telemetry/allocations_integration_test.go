//go:build unix && !race

package telemetry

import (
	"testing"

	"github.com/mcp-metarouter/metarouter/test/layer"
)

// A call must not come to cost more without anybody noticing.
func TestAllocationsOfACall(t *testing.T) {
	layer.Integration(t)
	t.Run("stdio", func(t *testing.T) {
		p := newPath(t)
		checkAllocations(t, "stdio", func(line []byte) { p.ask(t, line) }, echoCall)
	})
	for _, name := range []string{"session", "modern", "plain"} {
		t.Run(name, func(t *testing.T) {
			c := newWebClient(t)
			checkAllocations(t, "HTTP, "+name, func(request []byte) { c.ask(t, request) }, c.calls(t, name))
		})
	}
}

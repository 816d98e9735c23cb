package cli

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/console"
	"github.com/mcp-metarouter/metarouter/internal/exposure"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

// While a server waits, only its counter changes: that is no change. Neither are repairs.
func TestPrintChangesOfWaitingServer(t *testing.T) {
	var out bytes.Buffer
	w := watcher{apiClient: &apiClient{Env: &Env{Console: console.New(nil, &out, &out)}}, shown: make(map[string]exposure.ServerRow)}
	for i, reason := range []string{"waiting to be fetched, for 1s", "waiting to be fetched, for 2s", "npx is fetching pkg, for 1m3s", "exited with status 3"} {
		row := exposure.ServerRow{Name: "a", State: "ready", LastError: reason, Repairs: fmt.Sprint(i)}
		expect.OK(t, w.printChanges([]exposure.ServerRow{row}, nil))
	}
	if lines := strings.Count(out.String(), "\n"); lines != 2 || strings.Contains(out.String(), ", for ") {
		t.Errorf("it prints %q", out.String())
	}
}

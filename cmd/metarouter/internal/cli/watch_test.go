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

// The text of an error, which may count seconds, is no change of a server. Neither are repairs.
func TestPrintChangesOfWaitingServer(t *testing.T) {
	var out bytes.Buffer
	e, shown := &Env{Console: console.New(nil, &out, &out)}, make(map[string]exposure.ServerRow)
	for i, reason := range []string{"waiting to be fetched, for 1s", "waiting to be fetched, for 2s", "npx is fetching pkg, for 1m3s", "exited with status 3"} {
		row := exposure.ServerRow{Name: "a", State: []string{"restarting", "failed"}[i/3], LastError: reason, Repairs: fmt.Sprint(i)}
		expect.OK(t, printWatched(e, shown, []exposure.ServerRow{row}))
	}
	if lines := strings.Count(out.String(), "\n"); lines != 2 || !strings.Contains(out.String(), "exited with status 3") {
		t.Errorf("it prints %q", out.String())
	}
}

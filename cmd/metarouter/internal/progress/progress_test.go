package progress

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/serverrow"
)

// A frame shows all servers where there is room, else those first that start or do not
// work.
func TestFrame(t *testing.T) {
	began := time.Unix(1000, 0)
	now := began.Add(75 * time.Second)
	rows := []Row{
		{Row: serverrow.Row{Name: "files", State: "ready", Tools: 3}},
		{Row: serverrow.Row{Name: "日本", State: "starting"}, Since: began.Add(5 * time.Second), Doing: "npx is fetching a-package-with-a-long-name"},
		{Row: serverrow.Row{Name: "evil\x1b[31m\u202e", State: "failed", LastError: "exited\nwith status 3"}},
		{Row: serverrow.Row{Name: "off", State: "disabled"}},
	}
	for _, tc := range []struct {
		rows          []Row
		width, height int
		want          string
	}{
		{rows, 60, 10, `
✓  files  ready           3 tools
⠋  日本   starting  70 s           npx is fetching a-packag…
✗  evil   failed                   exited with status 3
-  off    disabled
1 of 3 servers ready, 3 tools, 1 starting, 1 not working, 7…`},
		{rows, 80, 4, `
⠋  日本  starting  70 s  npx is fetching a-package-with-a-long-name
✗  evil  failed          exited with status 3
… and 2 more
1 of 3 servers ready, 3 tools, 1 starting, 1 not working, 75 s`},
		{rows, 30, 1, "\n1 of 3 servers ready, 3 tools…"},
		{rows, 60, 2, "\n… and 4 more\n1 of 3 servers ready, 3 tools, 1 starting, 1 not working, 7…"},
		{nil, 80, 24, "\n0 of 0 servers ready, 0 tools, 75 s"},
	} {
		got := "\n" + strings.Join(liveLines(tc.rows, began, now, tc.width, tc.height, false), "\n")
		got = strings.ReplaceAll(got, "⠧", "⠋") // whichever it is
		for _, sign := range "⠙⠹⠸⠼⠴⠦" {
			got = strings.ReplaceAll(got, string(sign), "⠋")
		}
		if got != tc.want {
			t.Errorf("%d × %d:\n%s\nwant:%s", tc.width, tc.height, got, tc.want)
		}
		if n := strings.Count(got, "\n"); n > tc.height {
			t.Errorf("%d lines of %d", n, tc.height)
		}
	}
	var many []Row
	for i := range 100 {
		many = append(many, Row{Row: serverrow.Row{Name: fmt.Sprint("s", i), State: "ready"}})
	}
	lines := liveLines(many, began, now, 80, 18, true)
	if len(lines) != 18 || lines[16] != "… and 84 more" {
		t.Errorf("a hundred: %d lines, %q", len(lines), lines[16])
	}
}

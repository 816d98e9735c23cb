//go:build unix

package e2e

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/test/external"
)

// The clients of a newcomer, written from the documentation with an interpreter and nothing else. They
// exit at the first answer that is not as documented.
func TestNewcomers(t *testing.T) {
	t.Parallel()
	s := prepare(t, entries{"utilities": {"command": "metarouter", "args": []string{"builtin", "utilities"}}}, nil)
	url, _ := s.serveHTTP("--mode", "direct")
	all := regexp.MustCompile(`(?m)^\d+ steps passed$`)
	for _, client := range []struct{ interpreter, script string }{
		{"python3", "client.py"},
		{"node", "client.mjs"},
	} {
		t.Run(client.script, func(t *testing.T) {
			interpreter := external.Program(t, client.interpreter)
			cmd := exec.CommandContext(within(t), interpreter, filepath.Join("testdata", "clients", client.script), strings.TrimSuffix(url, "/mcp"))
			out, err := cmd.CombinedOutput()
			if err != nil || !all.Match(out) {
				t.Errorf("%s: %v\n%s", client.script, err, out)
			}
		})
	}
}

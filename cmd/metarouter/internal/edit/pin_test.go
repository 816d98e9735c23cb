package edit

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/configfile"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/console"
	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

func TestPinned(t *testing.T) {
	const memory = "@modelcontextprotocol/server-memory"
	for _, tt := range []struct{ line, runs, want string }{
		{"npx -y a x", "a@2.0.1", "a@2.0.1"},
		{"/bin/npx -y @b/c@^1", "@b/c@1.10.0", "@b/c@1.10.0"},
		{"npx --package=a cmd", "a@2.0.1", "--package=a@2.0.1"},
		{"npm exec a@latest", "a@2.0.1", "a@2.0.1"},
		{"npx -y a@2.0.1", "a@2.0.1", "a@2.0.1"},
		{"npx -y b", "a@2.0.1", "b"}, // an edit has another package
		{"npx -p a -p gone x", "a@2.0.1", "it needs several packages; write their versions by hand"},
		{"npx -y " + memory, memory + "@1.0.0", "its data is in its package's folder; set MEMORY_FILE_PATH first"},
		{"npx -y a", "", ""},
		{"uvx a", "a@2.0.1", ""},
		{"node a", "a@2.0.1", ""},
	} {
		words := strings.Fields(tt.line)
		_, got, err := pinned(config.Server{Command: words[0], Args: words[1:]}, tt.runs)
		if err != nil {
			got = err.Error()
		}
		expect.Equal(t, got, tt.want, "%s", tt.line)
	}
}

// Versions are written into each file whose entry counts, and nothing into files that were edited since.
func TestPin(t *testing.T) {
	dir := t.TempDir()
	a, b := filepath.Join(dir, "a.json"), filepath.Join(dir, "b.json")
	expect.OK(t, os.WriteFile(a, []byte(`{"mcpServers": {"x": {"command": "npx", "args": ["-y", "x"]}, "y": {"command": "npx", "args": ["y"]}}}`), 0o600))
	expect.OK(t, os.WriteFile(b, []byte(`{"mcpServers": {"y": {"command": "npx", "args": ["y"]} /* mine */}}`), 0o600))
	e := &Editor{Source: &configfile.Source{Console: console.New(nil, io.Discard, io.Discard), Paths: []string{a, b}}, Write: true}
	runs := map[string]string{"x": "x@1.0.0", "y": "y@2.0.0"}
	c, err := config.LoadText(a, b)
	expect.OK(t, err)
	expect.Error(t, Pin(e, runs, "another"), "the files differ from the configuration that runs")
	expect.OK(t, Pin(e, runs, c.Text.Digest()))
	for path, want := range map[string]string{
		a: `{"mcpServers": {"x": {"command": "npx", "args": ["-y", "x@1.0.0"]}, "y": {"command": "npx", "args": ["y"]}}}`,
		b: `{"mcpServers": {"y": {"command": "npx", "args": ["y@2.0.0"]} /* mine */}}`,
	} {
		got, err := os.ReadFile(path)
		expect.OK(t, err)
		expect.Equal(t, string(got), want, "%s", path)
	}
}

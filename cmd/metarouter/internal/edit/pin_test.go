package edit

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/clients"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/configfile"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/console"
	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

func TestPinOf(t *testing.T) {
	for line, want := range map[string]string{
		"a@2.0.1: npx -y a x":                            "a a@2.0.1",
		"@b/c@1.10.0: npx -y @b/c@^1":                    "@b/c@^1 @b/c@1.10.0",
		"a@2.0.1: npx --package=a cmd":                   "--package=a --package=a@2.0.1",
		"a@2.0.1: npx -y a@2.0.1":                        "a@2.0.1 a@2.0.1",
		"a@2.0.1: npx -p a -p b x":                       "it needs several packages",
		"a@2.0.1: npx -y b":                              "its version is unknown",
		": npx -y b":                                     "its version is unknown",
		": node b":                                       " ",
		"time@0.6.2: uvx time --tz UTC":                  "time time@0.6.2",
		"time@0.6.2: uvx --from time>=0 x":               "time>=0 time==0.6.2",
		"a@1.4: uvx --python 3 --from git+https://h/r x": "its version is unknown",
		"a@1.4: uvx --from=a[b]~=1 x":                    "--from=a[b]~=1 --from=a[b]==1.4",
		"a@1.4: uvx a[b]":                                "write a[b] after --from",
		"@modelcontextprotocol/server-memory@1.2.3: npx @modelcontextprotocol/server-memory": "its data is in its package's folder",
	} {
		runs, command, _ := strings.Cut(line, ": ")
		words := strings.Fields(command)
		old, exact, err := pinOf(config.Server{Transport: config.Stdio, Command: words[0], Args: words[1:]}, runs)
		if err != nil {
			expect.Contains(t, err.Error(), want, line)
			continue
		}
		expect.Equal(t, old+" "+exact, want, "%s", line)
	}
}

// Each file gets the versions of its own entries, of which the last of a name counts.
func TestPin(t *testing.T) {
	dir := t.TempDir()
	first, last := filepath.Join(dir, "a.json"), filepath.Join(dir, "b.json")
	const other = `{"mcpServers": {"twice": {"command": "npx", "args": ["old"]}, "mine": {"command": "uvx", "args": ["time" /* newest */]}}}`
	const off = `"off": {"command": "npx", "args": ["off"], "disabled": true}`
	expect.OK(t, os.WriteFile(first, []byte(other), 0o600))
	expect.OK(t, os.WriteFile(last, []byte(`{"mcpServers": {"twice": {"command": "npx", "args": ["-y", "new@latest"]}, `+off+`}}`), 0o640))
	var out, notes strings.Builder
	e := &Editor{Source: &configfile.Source{Console: console.New(nil, &out, &notes), Paths: []string{first, last}}, Write: true}
	expect.OK(t, Pin(e, map[string]string{"twice": "new@2.0.1", "mine": "time@0.6.2", "off": "off@1.0.0"}))
	for path, want := range map[string]string{
		first: strings.Replace(other, `"time"`, `"time@0.6.2"`, 1),
		last:  `{"mcpServers": {"twice": {"command": "npx", "args": ["-y", "new@2.0.1"]}, ` + off + `}}`,
	} {
		f, err := clients.Read(path)
		expect.OK(t, err)
		expect.Equal(t, string(f.Data), want)
	}
	expect.Contains(t, out.String(), "new@2.0.1", "the diff")
	e.Write = false
	expect.OK(t, Pin(e, map[string]string{"mine": "time@0.7.0"}))
	expect.Contains(t, notes.String(), "not pinned: twice: its version is unknown", "notes")
	expect.Contains(t, notes.String(), notWritten, "notes")
}

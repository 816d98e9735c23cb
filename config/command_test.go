package config

import (
	"io/fs"
	"slices"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/test/expect"
)

// A command line in "command" is split, unless it is the path of a program.
func TestCommandLines(t *testing.T) {
	programs := []string{"npx", "/opt/my tools/run", "/opt/serve", "/work/my run", "my-server", "/home/me/bin/run it"}
	world := fakeWorld(nil, map[string]string{"TOKEN": "sk-secret", "DIR": "/opt/my tools", "TWO": "one two"})
	world.lookPath = func(name string) (string, error) {
		if slices.Contains(programs, name) {
			return name, nil
		}
		return "", fs.ErrNotExist
	}
	for _, tt := range []struct {
		entry string
		says  string // "" if the command is right as it is
	}{
		{`"command": "npx -y pkg"`, `write "command": "npx", "args": ["-y", "pkg"]`},
		{`"command": "npx  -y 'a pkg'", "args": ["--x"]`, `write "command": "npx", "args": ["-y", "a pkg", "--x"]`},
		{`"command": "npx -y pkg --token=abcdefghijklmnop ${TOKEN}"`, `write "command": "npx", "args": ["-y", "pkg", "--token=…", "${TOKEN}"]`},
		{`"command": "uvx pkg"`, `write "command": "uvx", "args": ["pkg"]`}, // not installed
		{`"command": ["npx", "-y", "pkg"]`, `write "command": "npx", "args": ["-y", "pkg"]`},
		{`"command": "https://example.org/mcp?token=abcdefghijklmnop"`, `write "url": "https://example.org/mcp?token=…" instead of it`},
		{`"command": "npx", "args": "-y pkg"`, `write "args": ["-y", "pkg"]`},

		{`"command": "/opt/my tools/run"`, ""},
		{`"command": "~/bin/run it"`, ""},
		{`"command": "./my run", "cwd": "/work"`, ""},
		{`"command": "${TWO}"`, ""},
		{`"command": "/nowhere/my tools/run"`, ""}, // doctor says that it does not exist
		{`"command": "npx"`, ""},
		{`"command": ""`, ""},
	} {
		for _, asWritten := range []bool{false, true} {
			world := world
			world.asWritten = asWritten
			world.readFile = func(string) ([]byte, error) { return []byte(`{"mcpServers": {"a": {` + tt.entry + `}}}`), nil }
			c, err := load([]string{testFile}, world)
			expect.OK(t, err)
			var said []string
			for _, p := range c.Problems {
				if strings.Contains(p.Message, "write ") && !strings.Contains(p.Message, "a stdio server needs") && !strings.Contains(p.Message, "nothing to start") {
					said = append(said, p.Message)
				}
				if p.Severity == severityWarning {
					t.Errorf("%s: only a warning: %v", tt.entry, p)
				}
			}
			want := tt.says
			if (want == "") != (len(said) == 0) || len(said) > 1 || !strings.Contains(strings.Join(said, ""), want) {
				t.Errorf("%s (as written: %v): says %q, want %q", tt.entry, asWritten, said, want)
			}
		}
	}
}

package config

import (
	"io/fs"
	"slices"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/test/expect"
)

// An entry for Windows runs its command on other systems, or says why it can't.
func TestEntriesForWindows(t *testing.T) {
	world := func(windows bool, programs ...string) environment {
		env := fakeWorld(nil, map[string]string{"EVIL": "x & calc"})
		env.windows = windows
		env.lookPath = func(name string) (string, error) {
			if slices.Contains(programs, name) {
				return "/bin/" + name, nil
			}
			return "", fs.ErrNotExist
		}
		return env
	}
	for _, tc := range []struct {
		entry    string
		env      environment
		want     string // the command that runs
		problems string
	}{
		{`"command": "cmd", "args": ["/c", "npx", "-y", "x"]`, world(false), "npx -y x", `this is an entry for Windows, and runs here as "npx -y x"`},
		{`"command": "cmd", "args": ["/c", "own", "x"]`, world(false, "own"), "own x", "runs here as"},
		{`"command": "cmd", "args": ["/c", "own", "x"]`, world(false), "", "can't run on this system"},
		{`"command": "cmd", "args": ["/c", "npx", "${EVIL}"]`, world(false), "", "can't run on this system"},
		{`"command": "C:\\x\\own.exe"`, world(false), "", "can't run on this system"},
		{`"command": {"path": "cmd", "args": ["/c", "npx", "x"]}`, world(false), "npx x", "runs here as"},
		{`"command": "cmd", "args": ["/c", "npx", "--token", "sk-secretsecretsecret"]`, world(false), "npx --token sk-secretsecretsecret", "runs here as"},
		{`"command": "cmd", "args": ["/c", "npx", "x"]`, world(false, "cmd"), "cmd /c npx x", ""}, // a program of this name is here
		{`"command": "cmd", "args": ["/c", "npx", "x"]`, world(true), "cmd /c npx x", ""},
		{`"command": "cmd", "args": ["/c", "x"], "disabled": true`, world(false), "cmd /c x", ""},
		{`"command": "cmd", "args": ["/c", "metarouter", "builtin", "files", "/a"]`, world(false), "/opt/metarouter builtin files /a", "runs here as"},
		{`"command": "cmd", "args": ["/c", "metarouter", "serve"]`, world(false), "", "runs here as"},
	} {
		c, err := read(testFile, []byte(`{"mcpServers": {"a": {`+tc.entry+`}}}`), tc.env)
		expect.OK(t, err)
		s, said := c.Servers[0], ""
		for _, p := range c.Problems {
			said += p.Message + "\n"
		}
		got := strings.Join(append([]string{s.Command}, s.Args...), " ")
		if s.Misconfigured != "" || s.Self {
			got = ""
		}
		if got != tc.want || !strings.Contains(said, tc.problems) || tc.problems == "" && strings.Contains(said, "Windows") || strings.Count(said, "Windows") > 1 {
			t.Errorf("%s: runs %q, want %q; %s", tc.entry, got, tc.want, said)
		}
		expect.Equal(t, strings.Contains(strings.Split(said, "write that to make")[0], "sk-secret"), false, "a secret is shown: %s", said)
	}
}

package clients

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/test/expect"
)

// A survey finds the servers of the user, of this folder and of other projects, and runs,
// expands and follows nothing that a project's file says.
func TestSurvey(t *testing.T) {
	home := t.TempDir()
	folder := filepath.Join(home, "shop")
	place := on(runtime.GOOS, home, nil)
	write := func(text string, names ...string) {
		t.Helper()
		path := filepath.Join(append([]string{home}, names...)...)
		expect.OK(t, os.MkdirAll(filepath.Dir(path), 0o700))
		expect.OK(t, os.WriteFile(path, []byte(text), 0o600))
	}
	if got := Survey(place, folder); got != nil {
		t.Errorf("no files: %v", got)
	}
	write(`{"mcpServers": {"a": {"command": "a"}, "metarouter": {"command": "x"}, "m": {"command": "metarouter", "args": ["serve"]}},
		"projects": {`+quoted(folder)+`: {"mcpServers": {"a": {"command": "a"}, "b": {"url": "https://example.org"}, "c": {}}}, "/else where": {"mcpServers": {"a": {}, "b": {}}}}}`, ".claude.json")
	write(`{"mcpServers": {"m": {"command": "metarouter", "args": ["serve"]}}}`, ".cursor", "mcp.json")
	write(`{"mcpServers": {"_comment": "hi", "n": null, "t": "x", "5": 5}}`, ".gemini", "settings.json")
	write(`{"mcp": {"m": {"type": "local", "command": ["metarouter", "serve"]}}}`, ".config", "opencode", "opencode.json")
	write(`{`, ".codeium", "windsurf", "mcp_config.json")
	write(`{"servers": {"x": {"command": "${HOME}", "envFile": ".cursor"}}}`, "shop", ".vscode", "mcp.json")
	var got [][2]string
	for _, f := range Survey(place, folder) {
		got = append(got, [2]string{strings.ReplaceAll(f.Command(), folder, "FOLDER"), strings.NewReplacer(folder, "FOLDER", home, "HOME").Replace(f.String())})
	}
	if runtime.GOOS == "windows" {
		return // with other separators, and in quotes
	}
	want := [][2]string{
		{"metarouter import claude-code --project FOLDER --write", "3 servers of Claude Code for the folder FOLDER, in HOME/.claude.json"},
		{"metarouter import claude-code --project '/else where' --write", "2 servers of Claude Code for the folder /else where, in HOME/.claude.json"},
		{"metarouter import claude-code --write", "1 server of Claude Code, in HOME/.claude.json"},
		{"metarouter import vscode --project FOLDER", "1 server of VS Code, in FOLDER/.vscode/mcp.json"},
	}
	expect.Deep(t, got, want)

	// In the home folder, a client's file of the user is the project's too.
	write(`{"mcpServers": {"a": {"command": "a"}}}`, ".cursor", "mcp.json")
	n := 0
	for _, f := range Survey(place, home) {
		if f.Client.Name == "cursor" {
			n++
		}
	}
	expect.Equal(t, n, 1, "Cursor's file is named … times")
}

// A first file is one that works, for a project without comments.
func TestFirstFile(t *testing.T) {
	home, _ := filepath.Abs("home")
	for _, test := range []struct {
		path, folder string
		servers      int
		plain        bool
	}{
		{"mcp.json", filepath.Join(home, "shop"), 2, false},
		{"mcp.json", home, 1, false},
		{"mcp.json", filepath.VolumeName(home) + string(filepath.Separator), 1, false},
		{".mcp.json", filepath.Join(home, "shop"), 2, true},
		{".mcp.json", home, 1, true},
	} {
		data, files := FirstFile(test.path, test.folder, home)
		c, err := readExpanded(test.path, data)
		if err != nil || len(c.Problems) > 0 || len(c.Servers) != test.servers || files != (test.servers == 2) {
			t.Errorf("%v: %v %v %v\n%s", test, err, c.Problems, c.Servers, data)
		}
		if d, err := open(test.path, data); err != nil || d.root.IsStandard() != test.plain {
			t.Errorf("%v: %v\n%s", test, err, data)
		}
	}
}

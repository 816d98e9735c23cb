package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/test/expect"
)

// A command that a note or a fix names edits the file of --config when it is copied.
func TestAdviceNamesConfig(t *testing.T) {
	folder := t.TempDir()
	t.Setenv("HOME", folder)
	t.Setenv("XDG_CONFIG_HOME", "")
	path := filepath.Join(folder, "own.json")
	entry := `"command": "metarouter", "args": ["builtin", "utilities"], "env": {"GITHUB_TOKEN": "ghp_abcdefghijklmnopqrstuvwxyz0123456789"}`
	expect.OK(t, os.WriteFile(path, []byte(`{"mcpServers": {"a": {`+entry+`}}}`), 0o600))
	for _, command := range [][]string{{"check"}, {"add-json", "b", "{" + entry + "}"}} {
		var out bytes.Buffer
		expect.Equal(t, run(append(command, "--config", path), nil, &out, &out), 0, "%s", out.String())
		expect.Contains(t, out.String(), " --config "+path, "%s: the command in the advice lacks --config", command[0])
	}
}

// A command that approves, or does without an approval, works when it is copied.
func TestAdviceQuotesFoundFile(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "a b")
	expect.OK(t, os.Mkdir(folder, 0o700))
	expect.OK(t, os.WriteFile(filepath.Join(folder, ".mcp.json"), []byte(`{"mcpServers": {}}`), 0o600))
	t.Chdir(folder)
	var out bytes.Buffer
	run([]string{"servers", "--data", folder}, strings.NewReader(""), &out, &out)
	expect.Contains(t, out.String(), "--config '"+filepath.Join(folder, ".mcp.json")+"'")
}

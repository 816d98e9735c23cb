package edit

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/configfile"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/console"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

// Moving a secret out of an entry never replaces the secret of another entry.
func TestSecretOfTwoServers(t *testing.T) {
	folder := t.TempDir()
	for _, name := range []string{"XDG_CONFIG_HOME", "HOME", "AppData"} {
		t.Setenv(name, folder)
	}
	t.Setenv("METAROUTER_KEYRING", "off")
	path := filepath.Join(folder, "own.json")
	expect.OK(t, os.WriteFile(path, []byte(`{"mcpServers": {"a": {"command": "x", "env": {"TOKEN": "ghp_abcdefghijklmnopqrstuvwxyz0123456789"}}, "b": {"command": "x", "env": {"TOKEN": "ghp_zyxwvutsrqponmlkjihgfedcba9876543210"}}}}`), 0o600))
	files := &configfile.Source{Console: console.New(nil, io.Discard, io.Discard), Paths: []string{path}}
	expect.OK(t, SetSecret(t.Context(), files, "TOKEN", "a", false))
	err := SetSecret(t.Context(), files, "TOKEN", "b", false)
	if text, _ := os.ReadFile(path); err == nil || !strings.Contains(string(text), "ghp_zyxwvutsrqponmlkjihgfedcba9876543210") {
		t.Errorf("%v: %s", err, text)
	}
	expect.OK(t, SetSecret(t.Context(), files, "B_TOKEN", "b", false))
}

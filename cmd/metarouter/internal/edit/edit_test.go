package edit

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/clients"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/configfile"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/console"
	"github.com/mcp-metarouter/metarouter/config"
)

// An approved file with stored scripts stays approved, unless the edit brings other scripts.
func TestEditWithScripts(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, ".mcp.json")
	for _, folder := range []string{"scripts", "other"} {
		if err := os.Mkdir(filepath.Join(dir, folder), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, folder, "a.js"), []byte("/* Says hello. */"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	e := &Editor{Source: &configfile.Source{Console: console.New(nil, io.Discard, io.Discard), Paths: []string{file}, Data: t.TempDir()}}
	for i, step := range []struct {
		text     string
		approved bool
	}{
		{`{"metarouter": {"scripts": {"folder": ""}}}`, true},
		{`{"metarouter": {"scripts": {"folder": "scripts"}}}`, false},
		{`{"metarouter": {"scripts": {"folder": "scripts"}, "lazy": true}}`, true},
		{`{"metarouter": {"scripts": {"folder": "other"}}}`, false},
	} {
		f, err := clients.Read(file)
		if err != nil {
			t.Fatal(err)
		}
		approved, err := e.writeOurs(f, []byte(step.text), fs.ModePerm)
		if err != nil || approved != step.approved {
			t.Errorf("step %d: approved %v, %v", i, approved, err)
		}
		c, err := config.LoadText(file)
		if trusted := err == nil && c.Text.Trusted(e.Data) == nil; trusted != step.approved {
			t.Errorf("step %d: trusted %v, %v", i, trusted, err)
		}
		if err := c.Text.Trust(e.Data); err != nil { // as the user does next
			t.Fatal(err)
		}
	}
}

// The server of the stored scripts has no entry that can be edited.
func TestEditServerOfScripts(t *testing.T) {
	path := filepath.Join(t.TempDir(), ".mcp.json")
	folder := filepath.Join(filepath.Dir(path), "scripts")
	err := errors.Join(os.Mkdir(folder, 0o700), os.WriteFile(filepath.Join(folder, "a.js"), []byte("/* Says hello. */"), 0o600),
		os.WriteFile(path, []byte(`{"metarouter": {"scripts": {"folder": "scripts"}}}`), 0o600))
	if err != nil {
		t.Fatal(err)
	}
	f, err := clients.Read(path)
	if err != nil {
		t.Fatal(err)
	}
	files := []file{{File: f}}
	if err := noSuchServer(files, "scripts"); err == nil || !strings.Contains(err.Error(), "has no entry: it has the stored scripts of "+folder) {
		t.Error(err)
	}
}

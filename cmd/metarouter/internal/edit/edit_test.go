package edit

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/clients"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/configfile"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/console"
	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/configpath"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

// An approved file with stored scripts stays approved, unless the edit brings other scripts.
func TestEditWithScripts(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, ".mcp.json")
	for _, folder := range []string{"scripts", "other"} {
		expect.OK(t, os.Mkdir(filepath.Join(dir, folder), 0o700))
		expect.OK(t, os.WriteFile(filepath.Join(dir, folder, "a.js"), []byte("/* Says hello. */"), 0o600))
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
		expect.OK(t, err)
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

// Imports add up for each of our files; a damaged file of imports has none.
func TestStored(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	t.Setenv("HOME", t.TempDir())
	t.Setenv("AppData", t.TempDir())
	own, err := configpath.Own()
	expect.OK(t, err)
	for i, step := range []struct{ damage, path, hash, want string }{
		{"", "/a", "", "map[]"}, {"", "/a", "1", "map[1:x]"}, {"", "/a", "2", "map[1:x 2:x]"}, {"", "/b", "3", "map[3:x]"},
		{"", "/a", "", "map[1:x 2:x]"}, {"null", "/a", "", "map[]"}, {"{", "/a", "4", "map[4:x]"}, {`{"/a": null}`, "/a", "5", "map[5:x]"},
	} {
		if step.damage != "" {
			expect.OK(t, os.WriteFile(filepath.Join(filepath.Dir(own), "imported.json"), []byte(step.damage), 0o600))
		}
		var change func(map[string]string) map[string]string
		if step.hash != "" {
			change = func(all map[string]string) map[string]string {
				all[step.hash] = "x"
				return all
			}
		}
		if got, err := stored(importedFile, step.path, change); err != nil || fmt.Sprint(got) != step.want {
			t.Errorf("step %d: %v, %v, want %s", i, got, err, step.want)
		}
	}
}

// The server of the stored scripts has no entry that can be edited.
func TestEditServerOfScripts(t *testing.T) {
	path := filepath.Join(t.TempDir(), ".mcp.json")
	folder := filepath.Join(filepath.Dir(path), "scripts")
	err := errors.Join(os.Mkdir(folder, 0o700), os.WriteFile(filepath.Join(folder, "a.js"), []byte("/* Says hello. */"), 0o600),
		os.WriteFile(path, []byte(`{"metarouter": {"scripts": {"folder": "scripts"}}}`), 0o600))
	expect.OK(t, err)
	f, err := clients.Read(path)
	expect.OK(t, err)
	files := []file{{File: f}}
	expect.Error(t, noSuchServer(files, "scripts"), "has no entry: it has the stored scripts of "+folder)
}

package edit

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/clients"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/configfile"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/console"
	"github.com/mcp-metarouter/metarouter/config"
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
		expect.Equal(t, err == nil && c.Text.Trusted(e.Data) == nil, step.approved, "step %d: trusted …, %v", i, err)
		expect.OK(t, c.Text.Trust(e.Data)) // as the user does next
	}
}

// Each path has a value of its own; a missing file has none, and a damaged one is an error that names it.
func TestStored(t *testing.T) {
	for _, name := range []string{"XDG_CONFIG_HOME", "HOME", "AppData"} {
		t.Setenv(name, t.TempDir())
	}
	for i, step := range []struct{ damage, path, want string }{
		{"", "/a", "map[/a:1]"}, {"", "/b", "map[/a:1 /b:1]"}, {"null", "/a", "map[/a:1]"}, {"{", "/a", "imported.json is damaged"}, {`{"/a": null}`, "/b", "map[/a: /b:1]"},
	} {
		path, _, _ := readStored[string](importedFile)
		if step.damage != "" {
			expect.OK(t, os.WriteFile(path, []byte(step.damage), 0o600))
		}
		err := editStored(importedFile, func(all map[string]string) { all[step.path] = "1" })
		_, all, _ := readStored[string](importedFile)
		expect.Contains(t, fmt.Sprint(all, err), step.want, "step %d", i)
	}
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			if err := editStored(replacedFile, func(all map[string]int) { all[fmt.Sprint(i)] = i }); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if _, noted, err := readStored[int](replacedFile); err != nil || len(noted) != 20 {
		t.Errorf("of 20 edits at the same time %d are left: %v", len(noted), err)
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

// An entry because of which the file could not be used is not written.
func TestAddRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "own.json")
	e := &Editor{Source: &configfile.Source{Console: console.New(nil, io.Discard, io.Discard), Paths: []string{path}}, Write: true}
	err := Add(t.Context(), e, "x", func(string) string { return `{"command": "npx", "mode": "direct"}` }, false)
	if _, there := os.Stat(path); err == nil || there == nil || !strings.Contains(err.Error(), `"mode" has no effect here`) {
		t.Errorf("%v, %v", err, there)
	}
}

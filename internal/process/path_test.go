//go:build unix

package process

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/test/expect"
)

// addProgram puts an executable into a folder below root.
func addProgram(t *testing.T, root, folder, name string) string {
	t.Helper()
	path := filepath.Join(root, folder, name)
	expect.OK(t, os.MkdirAll(filepath.Dir(path), 0o755))
	expect.OK(t, os.WriteFile(path, []byte("#!/bin/sh\n"), 0o755))
	return path
}

func TestFind(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("PATH", filepath.Join(home, "short"))
	onPath := addProgram(t, home, "short", "on-path")
	addProgram(t, home, ".nvm/versions/node/v9.1.0/bin", "npx")
	newest := addProgram(t, home, ".nvm/versions/node/v22.1.0/bin", "npx")
	local := addProgram(t, home, ".local/bin", "uvx")
	own := addProgram(t, home, "own", "mine")
	addProgram(t, home, "project", "on-path")
	t.Chdir(filepath.Join(home, "project"))
	relative := addProgram(t, home, "project/bin", "tool")

	for _, tc := range []struct {
		command, own string
		want         string
		inPath       string // a folder that the server's PATH must hold
	}{
		{"on-path", "", onPath, "short"},
		{"on-path", ".:" + filepath.Join(home, "short") + ":bin:", onPath, "short"},
		{"npx", "", newest, ".nvm/versions/node/v22.1.0/bin"},
		{"uvx", "", local, ".local/bin"},
		{"mine", filepath.Join(home, "own"), own, "own"},
		{onPath, "", onPath, "short"},
		{"./bin/tool", "", relative, "short"},
	} {
		got, path, err := Find(tc.command, filepath.Join(home, "project"), tc.own)
		if err != nil || got != tc.want {
			t.Errorf("find(%s) = %s, %v, want %s", tc.command, got, err, tc.want)
		}
		if folder := filepath.Join(home, tc.inPath); !slices.Contains(filepath.SplitList(path), folder) {
			t.Errorf("find(%s): the server's PATH %s lacks %s", tc.command, path, folder)
		}
		if i := slices.IndexFunc(filepath.SplitList(path), func(folder string) bool { return !filepath.IsAbs(folder) }); i >= 0 {
			t.Errorf("find(%s): the server's PATH %s has a relative folder", tc.command, path)
		}
	}
	for command, want := range map[string]string{
		"nothing":      `command "nothing" is not on PATH`,
		"/no/such/cmd": "no such file",

		"ls --token=abcdefghijklmnop":   `command "ls --token=…" is not`,
		"/ls --token=abcdefghijklmnop1": `stat /ls --token=…`,
	} {
		if _, _, err := Find(command, "", ""); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("find(%s): %v, want %q", command, err, want)
		}
	}
}

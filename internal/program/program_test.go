//go:build unix

package program

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/mcp-metarouter/metarouter/test/expect"
)

// Programs in relative folders of PATH are passed over for programs in later folders.
func TestRelativeFoldersAreSkipped(t *testing.T) {
	cwd, good := t.TempDir(), t.TempDir()
	for _, path := range []string{filepath.Join(cwd, "npx"), filepath.Join(cwd, "bin", "npx"), filepath.Join(good, "npx"), filepath.Join(cwd, "only-here")} {
		os.MkdirAll(filepath.Dir(path), 0o755)
		expect.OK(t, os.WriteFile(path, []byte("#!/bin/sh\n"), 0o755))
	}
	t.Chdir(cwd)
	for _, first := range []string{".", "", "bin", "./bin", "../" + filepath.Base(cwd)} {
		t.Setenv("PATH", first+":"+good)
		if got, err := Look("npx"); err != nil || got != filepath.Join(good, "npx") {
			t.Errorf("PATH=%s: npx is %s, %v", os.Getenv("PATH"), got, err)
		}
		if got, err := Look("only-here"); err == nil {
			t.Errorf("PATH=%s: found %s", os.Getenv("PATH"), got)
		}
		expect.Equal(t, Join(Folders(os.Getenv("PATH"))), good, "PATH=%s keeps", os.Getenv("PATH"))
	}
	if got, err := Look("./bin/npx"); err != nil || got != "./bin/npx" {
		t.Errorf("a path with a folder: %s, %v", got, err)
	}
}

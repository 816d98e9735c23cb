package configpath

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/test/expect"
)

func write(t *testing.T, path string) {
	t.Helper()
	expect.OK(t, os.WriteFile(path, []byte("{}"), 0o600))
}

func TestFind(t *testing.T) {
	home, project := t.TempDir(), t.TempDir()
	for _, name := range []string{"HOME", "XDG_CONFIG_HOME", "AppData"} {
		t.Setenv(name, home)
	}
	t.Chdir(project)
	project, err := os.Getwd() // as the system spells it
	expect.OK(t, err)
	folder, err := os.UserConfigDir()
	expect.OK(t, err)
	own := filepath.Join(folder, "metarouter", "mcp.json")
	check := func(wantPath string, wantNamed bool, flags ...string) {
		t.Helper()
		paths, named, err := Find(flags)
		if err != nil || named != wantNamed || !slices.Equal(paths, []string{wantPath}) {
			t.Errorf("got %q %v %v, want %q %v", paths, named, err, wantPath, wantNamed)
		}
	}

	if _, _, err := Find(nil); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), own) {
		t.Errorf("no file exists: got %v", err)
	}
	expect.OK(t, os.MkdirAll(filepath.Dir(own), 0o700))
	write(t, own)
	check(own, true)
	write(t, ".mcp.json")
	check(filepath.Join(project, ".mcp.json"), false)
	check(filepath.Join(project, "x.json"), true, "x.json")
}

package config

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestFind(t *testing.T) {
	home, project := t.TempDir(), t.TempDir()
	for _, name := range []string{"HOME", "XDG_CONFIG_HOME", "AppData"} {
		t.Setenv(name, home)
	}
	t.Chdir(project)
	project, err := os.Getwd() // as the system spells it
	if err != nil {
		t.Fatal(err)
	}
	folder, err := os.UserConfigDir()
	if err != nil {
		t.Fatal(err)
	}
	own := filepath.Join(folder, "metarouter", "mcp.json")
	check := func(wantPath string, wantNamed bool, flags ...string) {
		t.Helper()
		paths, named, err := Find(flags)
		if err != nil || named != wantNamed || !reflect.DeepEqual(paths, []string{wantPath}) {
			t.Errorf("got %q %v %v, want %q %v", paths, named, err, wantPath, wantNamed)
		}
	}

	if _, _, err := Find(nil); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), own) {
		t.Errorf("nothing there: got %v", err)
	}
	if err := os.MkdirAll(filepath.Dir(own), 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, own, "{}")
	check(own, true)
	write(t, ".mcp.json", "{}")
	check(filepath.Join(project, ".mcp.json"), false)
	check(filepath.Join(project, "x.json"), true, "x.json")
}

// loaded is the file as it is now.
func loaded(t *testing.T, file string) Config {
	t.Helper()
	c, err := Load(file)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func trusted(t *testing.T, c Config, data string) bool {
	t.Helper()
	err := c.Trusted(data)
	if err != nil && !isUntrusted(err) {
		t.Error(err)
	}
	return err == nil
}

func isUntrusted(err error) bool {
	_, ok := errors.AsType[*Untrusted](err)
	return ok
}

func TestTrust(t *testing.T) {
	dir := t.TempDir()
	data := filepath.Join(dir, "data")
	file := filepath.Join(dir, ".mcp.json")
	check := func(text string, want bool) {
		t.Helper()
		write(t, file, text)
		if got := trusted(t, loaded(t, file), data); got != want {
			t.Errorf("%s: got %v, want %v", text, got, want)
		}
	}
	const approved = `{"mcpServers": {"a": {"command": "x", "env": {"K": "${K}", "L": "1"}}}, "metarouter": {"mode": "auto"}}`

	check(approved, false)
	if err := loaded(t, file).Trust(data); err != nil {
		t.Fatal(err)
	}
	t.Setenv("K", "another value")
	check(approved, true)
	check("// mine\n{\"metarouter\": {\"mode\": \"auto\"},\n\"mcpServers\": {\"a\": {\"env\": {\"L\": \"\\u0031\", \"K\": \"${K}\",}, \"command\": \"x\"}}, \"theme\": \"dark\"}", true)
	check(strings.Replace(approved, `"x"`, `"y"`, 1), false)
	check(strings.Replace(approved, `auto`, `direct`, 1), false)
	check(strings.Replace(approved, `"command": "x"`, `"command": "y", "command": "x"`, 1), false)
	check(strings.Replace(approved, `"command": "x"`, `"command": "x", "args": null`, 1), false)
	check(strings.Replace(approved, `mcpServers`, `servers`, 1), false)

	const bare = `{"a": {"command": "x"}}`
	check(bare, false)
	if err := loaded(t, file).Trust(data); err != nil {
		t.Fatal(err)
	}
	check(bare, true)
	check(`{"a": {"command": "x"}, "b": {"command": "x"}}`, false)

	copied := filepath.Join(dir, "copy.json")
	write(t, copied, bare)
	write(t, file, bare)
	if got := trusted(t, loaded(t, copied), data); got {
		t.Error("the same text elsewhere is trusted")
	}
	if err := loaded(t, copied).Trust(data); err != nil {
		t.Fatal(err)
	}
	if got := trusted(t, loaded(t, file), data); !got {
		t.Error("one approval took another's place")
	}

	// An edit is judged by what it says, though the file says otherwise by then.
	write(t, file, approved)
	edit := loaded(t, file)
	write(t, file, bare)
	if trusted(t, edit, data) {
		t.Error("an edit that was undone is trusted")
	}
	if err := edit.Trust(data); err != nil {
		t.Fatal(err)
	}
	check(bare, false)
	check(approved, true)
	write(t, file, bare)
	if err := loaded(t, file).Trust(data); err != nil {
		t.Fatal(err)
	}

	info, err := os.Stat(filepath.Join(data, "trust.json"))
	if err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Errorf("trust.json: got %v %v, want 0600", info.Mode(), err)
	}
	if left, _ := filepath.Glob(filepath.Join(data, "*")); len(left) != 1 {
		t.Errorf("left behind: %q", left)
	}
	write(t, filepath.Join(data, "trust.json"), "damaged")
	if got := trusted(t, loaded(t, file), data); got {
		t.Error("damaged approvals approve")
	}
	if err := loaded(t, file).Trust(data); err != nil {
		t.Errorf("damaged: %v", err)
	}
	if got := trusted(t, loaded(t, file), ""); got {
		t.Error("trusted without a data folder")
	}
	if err := loaded(t, file).Trust(""); err == nil {
		t.Error("no data folder: an approval was kept somewhere")
	}
}

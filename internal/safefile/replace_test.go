package safefile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/mcp-metarouter/metarouter/test/expect"
)

func TestWrite(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	for _, text := range []string{"a", "bb", ""} {
		expect.OK(t, Write(path, []byte(text), text == "bb"))
		if got, err := os.ReadFile(path); err != nil || string(got) != text {
			t.Errorf("%q, %v; want %q", got, err, text)
		}
	}
	if err := Write(filepath.Join(dir, "none", "f"), nil, false); err == nil {
		t.Error("no error where there is no folder")
	}
	expect.OK(t, os.Mkdir(filepath.Join(dir, "d"), 0o700))
	if err := Write(filepath.Join(dir, "d"), []byte("x"), false); err == nil {
		t.Error("no error where a folder is in the way")
	}
	if left, _ := os.ReadDir(dir); len(left) != 2 {
		t.Errorf("left behind: %v", left)
	}
}

func TestWriteMode(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("modes are those of Unix")
	}
	path := filepath.Join(t.TempDir(), "f")
	for _, mode := range []fs.FileMode{0o644, 0o600, 0o640} {
		expect.OK(t, WriteMode(path, []byte("a"), mode))
		if info, err := os.Stat(path); err != nil || info.Mode() != mode {
			t.Errorf("it is %v, %v; want %v", info, err, mode)
		}
	}
}

// A file that root writes for a user (sudo with the user's HOME) belongs to the user.
func TestWriteModeKeepsTheOwner(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give files away")
	}
	path := filepath.Join(t.TempDir(), "f")
	expect.OK(t, errors.Join(os.WriteFile(path, nil, 0o600), os.Chown(path, 65534, 65533)))
	expect.OK(t, WriteMode(path, []byte("a"), 0o600))
	f, err := os.Create(path + ".copy")
	expect.OK(t, err)
	defer f.Close()
	expect.OK(t, Own(f, path))
	for _, path := range []string{path, path + ".copy"} {
		info, err := os.Stat(path)
		expect.OK(t, err)
		expect.Contains(t, fmt.Sprintf("%+v", info.Sys()), "Uid:65534 Gid:65533", "%s is owned by", path)
	}
}

// A link in place of the file is replaced: the file to which it leads stays as it is.
func TestWriteFollowsNoLink(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("links need a privilege")
	}
	dir := t.TempDir()
	path, victim := filepath.Join(dir, "f"), filepath.Join(dir, "victim")
	expect.OK(t, errors.Join(os.WriteFile(victim, []byte("mine"), 0o600), os.Symlink(victim, path)))
	expect.OK(t, Write(path, []byte("new"), false))
	if info, err := os.Lstat(path); err != nil || !info.Mode().IsRegular() {
		t.Errorf("it is %v, %v", info, err)
	}
	if got, err := os.ReadFile(victim); err != nil || string(got) != "mine" {
		t.Errorf("the file that the link led to has %q, %v", got, err)
	}
}

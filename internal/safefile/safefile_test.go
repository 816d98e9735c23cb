package safefile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/test/expect"
)

func TestRead(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	expect.OK(t, os.WriteFile(path, []byte("12345"), 0o600))
	if got, err := Read(path, 5); err != nil || string(got) != "12345" {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := Read(path, 4); err == nil || !strings.Contains(err.Error(), "larger than 4 bytes") {
		t.Errorf("too large: %v", err)
	}
	if _, err := Read(dir, 5); err == nil || !strings.Contains(err.Error(), "folder") {
		t.Errorf("a folder: %v", err)
	}
	if _, err := Read(filepath.Join(dir, "none"), 5); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
}

func TestAppend(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "log")
	for range 2 {
		f, err := Append(path, 0)
		expect.OK(t, err)
		f.WriteString("x")
		f.Close()
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != "xx" {
		t.Errorf("%q, %v", got, err)
	}
}

func TestSize(t *testing.T) {
	for n, want := range map[int64]string{4 << 20: "4 MiB", 64 << 10: "64 KiB", 1000: "1000 bytes"} {
		expect.Equal(t, Size(n), want, "%d", n)
	}
}

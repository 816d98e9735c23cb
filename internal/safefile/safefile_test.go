package safefile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
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
	_, err := Read(path, 4)
	expect.Error(t, err, "larger than 4 bytes", "too large")
	_, err = Read(dir, 5)
	expect.Error(t, err, "folder", "a folder")
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

//go:build unix

package safefile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/mcp-metarouter/metarouter/test/expect"
)

// unseen examines a path at which there is no file yet.
func unseen(string) (fs.FileInfo, error) { return nil, fs.ErrNotExist }

// A FIFO is not waited for, a device is not read, and a link to a regular file is.
func TestReadOnlyRegularFiles(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	expect.OK(t, errors.Join(
		syscall.Mkfifo(at("fifo"), 0o600), os.WriteFile(at("file"), []byte("x"), 0o600),
		os.Symlink("file", at("link")), os.Symlink("/dev/zero", at("zero")), os.Symlink("fifo", at("toFIFO")),
	))
	for _, path := range []string{at("fifo"), at("zero"), at("toFIFO"), "/dev/zero", "/dev/null"} {
		if _, err := Read(path, 10); !errors.Is(err, ErrIrregular) {
			t.Errorf("%s: %v", path, err)
		}
	}
	if got, err := Read(at("link"), 10); err != nil || string(got) != "x" {
		t.Errorf("a link: %q, %v", got, err)
	}
	if _, err := (files{unseen, system.open}).openRegular(at("fifo"), os.O_RDONLY); !errors.Is(err, ErrIrregular) {
		t.Errorf("a FIFO that took the file's place after it was examined: %v", err)
	}
}

// A file that was planted at a log's path is not written to.
func TestAppendFollowsNoLink(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	expect.OK(t, errors.Join(
		syscall.Mkfifo(at("fifo"), 0o600), os.WriteFile(at("victim"), []byte("x"), 0o600),
		os.Symlink("victim", at("link")), os.Symlink("new", at("dangling")),
	))
	for _, path := range []string{at("fifo"), at("link"), at("dangling"), "/dev/null"} {
		if f, err := Append(path, os.O_TRUNC); !errors.Is(err, ErrIrregular) {
			t.Errorf("%s: %v, %v", path, f, err)
		}
	}
	for _, path := range []string{at("fifo"), at("link"), at("dangling"), "/dev/null"} {
		if f, err := OpenOwn(path, os.O_CREATE|os.O_RDWR); !errors.Is(err, ErrIrregular) {
			t.Errorf("%s: %v, %v", path, f, err)
		}
		if b, err := ReadOwn(path, 10); !errors.Is(err, ErrIrregular) {
			t.Errorf("%s: %q, %v", path, b, err)
		}
	}
	if got, err := ReadOwn(at("victim"), 10); err != nil || string(got) != "x" {
		t.Errorf("a file of ours: %q, %v", got, err)
	}
	if _, err := (files{unseen, own.open}).openRegular(at("link"), os.O_WRONLY); err == nil {
		t.Error("a link that took the file's place after it was examined is followed")
	}
	if got, err := os.ReadFile(at("victim")); err != nil || string(got) != "x" {
		t.Errorf("the victim has %q, %v", got, err)
	}
	if _, err := os.Stat(at("new")); err == nil {
		t.Error("a file was created through a link")
	}
}

func TestOwned(t *testing.T) {
	for _, c := range []struct {
		mode      fs.FileMode
		owner, us int
		want      string
	}{
		{0o700, 1000, 1000, ""},
		{0o755, 0, 1000, ""},
		{0o700, 1001, 1000, "belongs to user 1001"},
		{0o700, 1000, 0, "belongs to user 1000"},
		{0o720, 1000, 1000, "chmod go-w '/d'"},
		{0o1777, 0, 1000, "chmod go-w '/d'"},
	} {
		err := owned("/d", fs.ModeDir|c.mode, c.owner, c.us)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%04o of %d for %d: %v, want %q", c.mode, c.owner, c.us, err, c.want)
		}
	}
	if err := OwnersOnly(filepath.Join(t.TempDir(), "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	expect.Equal(t, quoted("/it's"), `'/it'\''s'`, "quoted")
}

package telemetry

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/mcp-metarouter/metarouter/config"
)

// A disk that is full tears a line, and no other.
func TestTornLine(t *testing.T) {
	file := filepath.Join(t.TempDir(), "log")
	r, err := openRotated(config.AccessLog{File: file, MaxSize: 1 << 20, MaxFiles: 3})
	if err != nil {
		t.Fatal(err)
	}
	defer r.close()
	if err := r.write([]byte("one\n")); err != nil {
		t.Fatal(err)
	}
	full := func(bytes uint64) { // stands for a disk that is full: files may be this long
		t.Helper()
		var limit syscall.Rlimit
		if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
			t.Fatal(err)
		}
		limit.Cur = min(bytes, limit.Max)
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
			t.Fatal(err)
		}
	}
	full(6)
	for range 2 { // the second can't write a byte
		err = r.write([]byte("two\n"))
	}
	full(^uint64(0))
	if err == nil {
		t.Error("a full disk was written to")
	}
	for _, line := range []string{"three\n", "four\n"} {
		if err := r.write([]byte(line)); err != nil {
			t.Fatal(err)
		}
	}
	if got, _ := os.ReadFile(file); string(got) != "one\ntw\nthree\nfour\n" {
		t.Errorf("got %q", got)
	}
}

// A link to the file goes on leading to it, and old files are where it is.
func TestRotationOfLink(t *testing.T) {
	folder, elsewhere := t.TempDir(), t.TempDir()
	link, file := filepath.Join(folder, "log"), filepath.Join(elsewhere, "real")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(file, link); err != nil {
		t.Fatal(err)
	}
	r, err := openRotated(config.AccessLog{File: link, MaxSize: 5, MaxFiles: 3})
	if err != nil {
		t.Fatal(err)
	}
	defer r.close()
	for _, line := range []string{"zero\n", "one\n", "two\n", "three\n"} {
		if err := r.write([]byte(line)); err != nil {
			t.Fatal(err)
		}
	}
	if got, _ := os.ReadFile(link); string(got) != "three\n" {
		t.Errorf("the link leads to %q", got)
	}
	if old := old(file); len(old) != 2 || !strings.HasPrefix(old[0], elsewhere) {
		t.Errorf("old files are %q", old)
	}
}

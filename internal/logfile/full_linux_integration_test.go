//go:build linux

package logfile

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/mcp-metarouter/metarouter/internal/safefile"
	"github.com/mcp-metarouter/metarouter/test/expect"
	"github.com/mcp-metarouter/metarouter/test/layer"
)

// A disk that is full tears no line. The limit on files holds for the whole
// process, also for the log that 'go test' keeps of a test's process: so another one runs it.
func TestTornLine(t *testing.T) {
	layer.Integration(t)
	const inOther = "METAROUTER_TEST_TORN_LINE"
	if os.Getenv(inOther) == "" {
		other := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestTornLine$", "-test.v")
		other.Env = append(os.Environ(), inOther+"=1")
		if out, err := other.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: TestTornLine") {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	file := filepath.Join(t.TempDir(), "log")
	r := File{Path: file, MaxSize: 1 << 20, MaxFiles: 3}
	expect.OK(t, r.Append(t.Context(), []byte("one\n")))
	full := func(bytes uint64) { // stands for a disk that is full: files may be this long
		t.Helper()
		var limit syscall.Rlimit
		expect.OK(t, syscall.Getrlimit(syscall.RLIMIT_FSIZE, &limit))
		limit.Cur = min(bytes, limit.Max)
		expect.OK(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit))
	}
	full(6)
	var err error
	for range 2 { // half a line is cut off again
		err = r.Append(t.Context(), []byte("two\n"))
	}
	full(^uint64(0))
	if err == nil {
		t.Error("a full disk was written to")
	}
	for _, line := range []string{"three\n", "four\n"} {
		expect.OK(t, r.Append(t.Context(), []byte(line)))
	}
	if got, _ := os.ReadFile(file); string(got) != "one\nthree\nfour\n" {
		t.Errorf("got %q", got)
	}
}

// In a folder that can't be written there is no lock, and the lines are written all the same.
func TestFolderThatCantBeWritten(t *testing.T) {
	layer.Integration(t)
	folder := t.TempDir()
	r := File{Path: filepath.Join(folder, "log"), MaxSize: 5, MaxFiles: 3}
	expect.OK(t, r.Create())
	expect.OK(t, os.Chmod(folder, 0o500))
	defer os.Chmod(folder, 0o700)
	if os.Geteuid() == 0 { // files are opened as a user who is not root
		expect.OK(t, errors.Join(os.Chown(folder, 65534, 65534), os.Chown(r.Path, 65534, 65534), os.Chmod(filepath.Dir(folder), 0o711)))
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		syscall.Setfsuid(65534)
		defer syscall.Setfsuid(0)
	}
	for _, line := range []string{"one 23\n", "two\n"} {
		expect.OK(t, r.Append(t.Context(), []byte(line)))
	}
	if got, _ := os.ReadFile(r.Path); string(got) != "one 23\ntwo\n" || len(Old(r.Path)) > 0 {
		t.Errorf("got %q", got)
	}
}

// A link that is put in place of the log, before or while it is open, is not followed.
func TestLinkInPlaceOfLog(t *testing.T) {
	layer.Integration(t)
	folder := t.TempDir()
	log, victim := filepath.Join(folder, "log"), filepath.Join(folder, "victim")
	expect.OK(t, os.WriteFile(victim, []byte("mine"), 0o600))
	r := File{Path: log, MaxSize: 5, MaxFiles: 3}
	expect.OK(t, r.Append(t.Context(), []byte("zero\n")))
	expect.OK(t, errors.Join(os.Remove(log), os.Symlink(victim, log)))
	if err := r.Append(t.Context(), []byte("one\n")); !errors.Is(err, safefile.ErrIrregular) {
		t.Errorf("a link took the log's place: %v", err)
	}
	if err := r.Create(); !errors.Is(err, safefile.ErrIrregular) {
		t.Errorf("a link is opened: %v", err)
	}
	if got, _ := os.ReadFile(victim); string(got) != "mine" {
		t.Errorf("the file that the link leads to has %q", got)
	}
	expect.OK(t, os.Remove(log))
	expect.OK(t, r.Append(t.Context(), []byte("two\n")), "the link is gone, and yet")
}

//go:build unix

package audit

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

const fullVariable = "METAROUTER_TEST_AUDIT_FULL"

// TestFullProcess is the process of [TestFull]: its files can't grow beyond 1,000 bytes for a
// while, so that a write ends in the middle of a line, as on a full disk.
func TestFullProcess(t *testing.T) {
	path := os.Getenv(fullVariable)
	if path == "" {
		t.Skip("TestFull runs it")
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	limit := func(bytes uint64) {
		var l unix.Rlimit
		must(unix.Getrlimit(unix.RLIMIT_FSIZE, &l))
		l.Cur = bytes
		must(unix.Setrlimit(unix.RLIMIT_FSIZE, &l))
	}
	f, err := newFile(Options{File: path})
	must(err)
	limit(1000)
	var entries []Entry
	for i := range 20 {
		entries = append(entries, Entry{Time: now(), Event: Event{Action: Control, Outcome: OK, Target: strconv.Itoa(i)}})
	}
	n, err := f.append(t.Context(), entries)
	if err == nil || n != 0 {
		t.Errorf("%d are written in spite of the limit, %v", n, err)
	}
	limit(unix.RLIM_INFINITY)
	_, err = f.append(t.Context(), entries)
	must(err)
}

// Lines that a full disk takes only in part are written as a whole later, once.
func TestFull(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	c := exec.Command(os.Args[0], "-test.run=^TestFullProcess$")
	c.Env = append(os.Environ(), fullVariable+"="+path)
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%s, %v", out, err)
	}
	report, err := Verify(t.Context(), path, "")
	if err != nil || report.Events != 20 || len(report.Gaps) != 0 {
		t.Errorf("%+v, %v", report, err)
	}
	text, err := os.ReadFile(path)
	if err != nil || strings.Count(string(text), `"target":"0"`) != 1 {
		t.Errorf("%s, %v", text, err)
	}
}

package mcptest

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// PIDs returns the process ids in a -pid-file of the fake server, in the order in which they
// were written; nil if the file does not exist yet.
func PIDs(t testing.TB, file string) []int {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	var pids []int
	for _, line := range strings.Fields(string(b)) {
		pid, err := strconv.Atoi(line)
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		pids = append(pids, pid)
	}
	return pids
}

// WaitFor polls until cond returns true, and fails the test if that takes more than three
// minutes. what completes the sentence "waited 3 minutes in vain for". Call it on the test's own
// goroutine.
func WaitFor(t testing.TB, what string, cond func() bool) {
	t.Helper()
	for deadline := time.Now().Add(3 * time.Minute); !cond(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited 3 minutes in vain for: %s", what)
		}
	}
}

// Gone waits until every process in the -pid-file has ended, and fails the test if the file
// has fewer than atLeast. Call it on the test's own goroutine.
func Gone(t testing.TB, file string, atLeast int) {
	t.Helper()
	WaitFor(t, "the end of all processes", func() bool { return !slices.ContainsFunc(PIDs(t, file), Alive) })
	if n := len(PIDs(t, file)); n < atLeast {
		t.Errorf("only %d processes were started, want at least %d", n, atLeast)
	}
}

// IsNamed reports whether the command line of a process that runs has the text. It is false on
// systems without /proc.
func IsNamed(text string) bool {
	lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	return slices.ContainsFunc(lines, func(name string) bool {
		line, _ := os.ReadFile(name) // empty for a process that has ended
		return bytes.Contains(line, []byte(text))
	})
}

package mcptest

import (
	"errors"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// PIDs are the processes that wrote themselves into a -pid-file, in that order;
// none if the file isn't there yet.
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

// WaitFor polls until cond holds, and fails the test if it doesn't in half a
// minute. It must be called on the test's own goroutine.
func WaitFor(t testing.TB, what string, cond func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !cond(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited 30 s in vain for: %s", what)
		}
	}
}

// Gone waits until every process in the -pid-file is dead, and fails the test if
// fewer than atLeast were ever there. It must be called as WaitFor.
func Gone(t testing.TB, file string, atLeast int) {
	t.Helper()
	WaitFor(t, "all processes to be gone", func() bool { return !slices.ContainsFunc(PIDs(t, file), Alive) })
	if n := len(PIDs(t, file)); n < atLeast {
		t.Errorf("only %d processes were ever there, want at least %d", n, atLeast)
	}
}

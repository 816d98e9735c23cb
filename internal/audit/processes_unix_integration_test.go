//go:build unix

package audit

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/mcp-metarouter/metarouter/internal/logfile"
	"github.com/mcp-metarouter/metarouter/test/expect"
	"github.com/mcp-metarouter/metarouter/test/layer"
)

const writerVariable = "METAROUTER_TEST_AUDIT_FILE"

func TestMain(m *testing.M) {
	if path := os.Getenv(writerVariable); path != "" {
		writeForever(path)
	}
	goleak.VerifyTestMain(m)
}

// writeForever is the process that [TestProcesses] kills.
func writeForever(path string) {
	l, err := Open(Options{File: path, MaxSize: 1 << 10, MaxFiles: 1000})
	if err != nil {
		panic(err)
	}
	for i := 0; ; i++ {
		l.Record(Event{Action: Control, Outcome: OK, Principal: fmt.Sprint(os.Getpid()), Target: fmt.Sprint(i)})
		time.Sleep(time.Millisecond)
	}
}

// Several processes write to one log, which rotates, and are killed at any time.
func TestProcesses(t *testing.T) {
	layer.Integration(t)
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	writers := func() map[string]int { // how many events each process has written
		if _, err := Verify(t.Context(), path, ""); err != nil && !errors.Is(err, fs.ErrNotExist) && !strings.Contains(err.Error(), "has no end") {
			t.Fatal(err)
		}
		last, err := lastOf(t, path, 1<<20)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		all := make(map[string]int)
		for _, e := range last {
			all[e.Principal]++
		}
		return all
	}
	least := func(processes []*exec.Cmd) int {
		all, least := writers(), math.MaxInt
		for _, c := range processes {
			least = min(least, all[fmt.Sprint(c.Process.Pid)])
		}
		return least
	}
	for round := range 2 {
		var processes []*exec.Cmd
		for range 3 {
			c := exec.Command(os.Args[0])
			c.Env = append(os.Environ(), writerVariable+"="+path)
			expect.OK(t, c.Start())
			processes = append(processes, c)
		}
		for deadline := time.Now().Add(time.Minute); least(processes) < 5; time.Sleep(10 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Errorf("round %d: %v", round, writers())
				break
			}
		}
		for _, c := range processes {
			c.Process.Kill()
			c.Wait()
		}
	}
	write(t, Options{File: path, MaxSize: 1 << 10, MaxFiles: 1000}, "last")
	report, err := Verify(t.Context(), path, "")
	if err != nil || len(logfile.Old(path)) == 0 {
		t.Errorf("%+v, %v", report, err)
	}
}

const fullVariable = "METAROUTER_TEST_AUDIT_FULL"

// TestFullProcess is the process of [TestFull]: its files can't grow beyond 1,000 bytes for a
// while, so that a write ends in the middle of a line, as on a full disk.
func TestFullProcess(t *testing.T) {
	layer.Integration(t)
	path := os.Getenv(fullVariable)
	if path == "" {
		t.Skip("TestFull runs it")
	}
	must := func(err error) {
		t.Helper()
		expect.OK(t, err)
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
	if err := f.append(t.Context(), entries); err == nil {
		t.Error("they are written in spite of the limit")
	}
	limit(unix.RLIM_INFINITY)
	must(f.append(t.Context(), entries))
}

// Lines that a full disk takes only in part are written as a whole later, once.
func TestFull(t *testing.T) {
	layer.Integration(t)
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

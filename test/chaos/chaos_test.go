//go:build linux

package main

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcp-metarouter/metarouter/test/expect"
	"github.com/mcp-metarouter/metarouter/test/layer"
	"github.com/mcp-metarouter/metarouter/test/mcptest"
)

// lastsVariable sets how long TestChaos runs; "0s" skips it.
const lastsVariable = "METAROUTER_CHAOS"

// TestChaos builds and runs the program.
func TestChaos(t *testing.T) {
	lasts := lasting(t, lastsVariable, 20*time.Second)
	program := filepath.Join(t.TempDir(), "chaos")
	if out, err := exec.Command("go", "build", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	report := filepath.Join(t.TempDir(), "report.md")
	out, err := exec.Command(program, "-for", lasts.String(), "-report", report).CombinedOutput()
	text, _ := os.ReadFile(report)
	t.Logf("%s%s", out, text)
	expect.OK(t, err)
}

// lasting returns how long a test loads the machine: as the variable says, or usually this long.
func lasting(t *testing.T, variable string, usually time.Duration) time.Duration {
	t.Helper()
	asked := os.Getenv(variable)
	layer.Integration(t)
	if asked == "" {
		return usually
	}
	lasts, err := time.ParseDuration(asked)
	expect.OK(t, err)
	if lasts == 0 {
		t.Skip(variable + " is 0s")
	}
	return lasts
}

func TestKeepFiles(t *testing.T) {
	fd, err := unix.Dup(0) // without the flag
	expect.OK(t, err)
	defer unix.Close(fd)
	keepFiles()
	if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC == 0 {
		t.Errorf("programs that are started get the file: flags %d, %v", flags, err)
	}
}

// The ledger must find every broken promise.
func TestLedger(t *testing.T) {
	result := func(text string, isError bool) answer {
		b, err := json.Marshal(map[string]any{"content": []any{map[string]any{"type": "text", "text": text}}, "isError": isError})
		expect.OK(t, err)
		return answer{result: b}
	}
	for name, test := range map[string]struct {
		becomes func(l *ledger, c call)
		want    tally
		sound   bool
	}{
		"right": {func(l *ledger, c call) { l.came(c.id); l.settle(c, result(c.want, false), 0) }, tally{Right: 1}, true},
		"the answer to another call": {func(l *ledger, c call) {
			l.came(c.id)
			l.settle(c, result(echoCall(c.id+1, "s01", "echo", 3).want, false), 0)
		}, tally{Wrong: 1}, false},
		"cut short":           {func(l *ledger, c call) { l.settle(c, result(c.want[:8], false), 0) }, tally{Wrong: 1}, false},
		"a failure, named":    {func(l *ledger, c call) { l.settle(c, result(`server "s01" is busy`, true), 0) }, tally{Failed: 1}, true},
		"an error, named":     {func(l *ledger, c call) { l.settle(c, answer{fault: `unknown tool "s01:echo"`}, 0) }, tally{Failed: 1}, true},
		"an error, not named": {func(l *ledger, c call) { l.settle(c, answer{fault: "internal error"}, 0) }, tally{Wrong: 1}, false},
		"a router's end":      {func(l *ledger, c call) { l.settle(c, answer{fault: "the router ended"}, 0) }, tally{Wrong: 1}, false},
		"one on purpose": {func(l *ledger, c call) {
			l.mayEnd = true
			l.settle(c, answer{fault: "the router ended"}, 0)
		}, tally{Failed: 1}, true},
		"no result at all": {func(l *ledger, c call) { l.settle(c, answer{}, 0) }, tally{Wrong: 1}, false},
		"lost":             {func(l *ledger, c call) { l.lose(c, errors.New("late")) }, tally{Lost: 1}, false},
		"never settled":    {func(*ledger, call) {}, tally{}, false},
		"twice": {func(l *ledger, c call) {
			l.came(c.id)
			l.settle(c, result(c.want, false), 0)
			l.came(c.id)
			l.came(c.id)
		}, tally{Right: 1, Twice: 1}, false},
		"garbled": {func(l *ledger, c call) {
			l.settle(c, result(c.want, false), 0)
			l.garbled([]byte("{"))
		}, tally{Right: 1, Garbled: 1}, false},
	} {
		l := newLedger(false)
		test.becomes(l, echoCall(l.next(), "s01", "echo", 3))
		test.want.Made = 1
		if got := l.sum(); got != test.want || got.sound() != test.sound {
			t.Errorf("%s: %+v, sound %v", name, got, got.sound())
		}
	}
}

func TestOrphans(t *testing.T) {
	server, child := process{pid: 7, role: servers, server: "s01"}, process{pid: 8, role: kids, server: childOf + "7"}
	expect.List(t, orphans([]process{server, child}), nil, "the child of a server that runs is an orphan")
	if left := orphans([]process{{pid: 9, role: servers}, child}); len(left) != 1 || left[0] != child {
		t.Errorf("orphans are %v, want %v", left, child)
	}
}

func TestMain(m *testing.M) { mcptest.Main(m) }

//go:build linux

package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// processes returns the ids of the router's processes: a router may do its work in one that
// it shares with others, and keep helpers. They have the same program and the same home.
func (r route) processes(t testing.TB) (pids []int) {
	t.Helper()
	folders, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	program, err := filepath.EvalSymlinks(r.program)
	if err != nil {
		t.Fatal(err)
	}
	for _, folder := range folders { // of which some end meanwhile
		if runs, err := os.Readlink(folder + "/exe"); err != nil || runs != program {
			continue
		}
		variables, err := os.ReadFile(folder + "/environ")
		if err == nil && bytes.Contains(variables, []byte("\x00HOME="+r.home+"\x00")) {
			pid, _ := strconv.Atoi(filepath.Base(folder))
			pids = append(pids, pid)
		}
	}
	if len(pids) == 0 {
		t.Fatalf("%s has no process", r.program)
	}
	return pids
}

// cpu returns the CPU time that the router's processes have used, without the servers.
// counted is false without a router.
func (r route) cpu(t testing.TB) (used time.Duration, counted bool) {
	t.Helper()
	if r.program == "" {
		return 0, false
	}
	for _, pid := range r.processes(t) {
		used += cpuOf(t, pid)
	}
	return used, true
}

// cpuOf returns the CPU time that a process has used.
func cpuOf(t testing.TB, pid int) time.Duration {
	t.Helper()
	// The clock of a process, as clock_getcpuclockid(3) makes it: ns, with threads that have ended.
	var clock unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|2), &clock); err != nil {
		t.Fatalf("CPU clock of process %d: %v", pid, err)
	}
	return time.Duration(clock.Nano())
}

// A memory is the proportional set size of processes in MiB: a page that several share counts once.
type memory struct {
	all, anonymous, file float64
}

// memoryOf sums the memory of processes.
func memoryOf(t testing.TB, pids []int) (m memory) {
	t.Helper()
	for _, pid := range pids {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			var kB float64
			name, rest, _ := strings.Cut(line, ":")
			fmt.Sscan(rest, &kB)
			switch name {
			case "Pss":
				m.all += kB / 1024
			case "Pss_Anon":
				m.anonymous += kB / 1024
			case "Pss_File", "Pss_Shmem":
				m.file += kB / 1024
			}
		}
	}
	return m
}

//go:build unix

package natsserver

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

func terminate(p *os.Process) { p.Signal(syscall.SIGTERM) }

// suspend halts a process, and waits until all its threads are halted where the system says so.
func suspend(t testing.TB, p *os.Process) {
	t.Helper()
	signal(t, p, syscall.SIGSTOP)
	for deadline := time.Now().Add(patience); !halted(p.Pid); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("process %d does not halt", p.Pid)
		}
	}
}

// halted reports whether the threads of a process are halted, or the system has no /proc.
func halted(pid int) bool {
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	for _, thread := range threads {
		stat, err := os.ReadFile(thread)
		_, state, ok := bytes.Cut(stat[bytes.LastIndexByte(stat, ')')+1:], []byte(" "))
		if err == nil && ok && state[0] != 'T' {
			return false
		}
	}
	return true
}

func resume(t testing.TB, p *os.Process) { signal(t, p, syscall.SIGCONT) }

func signal(t testing.TB, p *os.Process, s syscall.Signal) {
	t.Helper()
	if err := p.Signal(s); err != nil {
		t.Fatal(err)
	}
}

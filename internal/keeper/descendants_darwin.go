package keeper

import (
	"bytes"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// siginfoPID is where siginfo_t has the process id.
const siginfoPID = 12

// A stat is a part of what the kernel says of a process.
type stat struct {
	dead bool
	born string
}

func statOf(pid int) (s stat, ok bool) {
	const zombie = 5 // SZOMB of sys/proc.h
	p, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if err != nil {
		return s, false
	}
	return stat{p.Proc.P_stat == zombie, fmt.Sprint(p.Proc.P_starttime)}, true
}

// Without a subreaper an orphan belongs to launchd, so descendants are found by their
// marks alone.

func adoptOrphans() {}

func tagOf(string, int64, bool) uint64 { return 0 }

func canTag() bool { return false }

func tagChildren(uint64) (untag func()) { return func() {} }

// killLeft kills the descendants of servers that have ended, or all if the router has.
func (k *keeper) killLeft(ended []*guarded, all bool) {
	k.mu.Lock()
	mark := k.mark
	k.mu.Unlock()
	if all && mark != "" {
		KillMarked(mark + ".")
	}
	for _, s := range ended {
		KillMarked(fmt.Sprintf("%s.%d.", mark, s.number))
	}
}

// killOnce kills the processes with a mark in the environment that begins with mark, and
// every descendant of one: the environment of programs that the system protects can't
// be read, but their ancestors can.
func killOnce(mark string) (killed int) {
	needle := []byte("\x00" + MarkVariable + "=" + mark)
	all, err := unix.SysctlKinfoProcSlice("kern.proc.all")
	if err != nil {
		return 0
	}
	doomed := make(map[int32]bool)
	for _, p := range all {
		// argc, the executable's path, the arguments and the environment
		args, err := unix.SysctlRaw("kern.procargs2", int(p.Proc.P_pid))
		if err == nil && bytes.Contains(args, needle) {
			doomed[p.Proc.P_pid] = true
		}
	}
	for grew := len(doomed) > 0; grew; {
		grew = false
		for _, p := range all {
			if doomed[p.Eproc.Ppid] && !doomed[p.Proc.P_pid] {
				doomed[p.Proc.P_pid], grew = true, true
			}
		}
	}
	for pid := range doomed {
		if int(pid) != os.Getpid() && pid > 1 && unix.Kill(int(pid), unix.SIGKILL) == nil {
			killed++
		}
	}
	return killed
}

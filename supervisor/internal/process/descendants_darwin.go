package process

import (
	"bytes"
	"os"

	"golang.org/x/sys/unix"
)

// A leader is the first process of a group with its time of birth, so that a
// later process of the same id is not taken for it.
type leader struct {
	pid  int
	born unix.Timeval
}

func lead(pid int) leader {
	p, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if err != nil {
		return leader{}
	}
	return leader{pid, p.Proc.P_starttime}
}

func (l leader) alive() bool { return l.pid > 0 && lead(l.pid) == l }
func (l leader) close()      {}

// killOnce kills the processes whose environment holds needle, and every
// descendant of one: the environment of programs that the system protects can't
// be read, but what they descend from can.
func killOnce(needle []byte) (killed int) {
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

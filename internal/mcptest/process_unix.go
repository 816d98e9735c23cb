//go:build unix

package mcptest

import (
	"bytes"
	"os"
	"strconv"
	"syscall"
)

func ownSession() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }
func ownGroup() *syscall.SysProcAttr   { return &syscall.SysProcAttr{Setpgid: true} }

func signalGroup(leader *os.Process, sig syscall.Signal) error {
	return syscall.Kill(-leader.Pid, sig)
}

// Alive reports whether the process runs. One that ended and was not waited for
// is not alive, where that can be told.
func Alive(pid int) bool {
	if syscall.Kill(pid, 0) == syscall.ESRCH {
		return false
	}
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		// Gone since, or there is no /proc.
		return syscall.Kill(pid, 0) != syscall.ESRCH
	}
	_, state, ok := bytes.Cut(stat[bytes.LastIndexByte(stat, ')')+1:], []byte(" "))
	return !ok || state[0] != 'Z' && state[0] != 'X'
}

// lockFile locks the file until it is closed or the process ends.
func lockFile(name string, wait bool) (*os.File, error) {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	how := syscall.LOCK_EX
	if !wait {
		how |= syscall.LOCK_NB
	}
	for {
		if err = syscall.Flock(int(f.Fd()), how); err != syscall.EINTR {
			break
		}
	}
	if err != nil {
		f.Close()
		return nil, &os.PathError{Op: "lock", Path: name, Err: err}
	}
	return f, nil
}

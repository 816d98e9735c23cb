//go:build unix

package mcptest

import (
	"bytes"
	"os"
	"strconv"
	"syscall"

	"github.com/mcp-metarouter/metarouter/test/fakeserver"
)

func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

func signalGroup(leader *os.Process, sig syscall.Signal) error {
	return syscall.Kill(-leader.Pid, sig)
}

// Alive reports whether the process runs. A process that ended but was not waited for is
// not alive, where the system shows the difference.
func Alive(pid int) bool {
	if is, runs := fakeserver.IsPlayed(pid); is {
		return runs
	}
	if syscall.Kill(pid, 0) == syscall.ESRCH {
		return false
	}
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		// The process has ended since, or the system has no /proc.
		return syscall.Kill(pid, 0) != syscall.ESRCH
	}
	_, state, ok := bytes.Cut(stat[bytes.LastIndexByte(stat, ')')+1:], []byte(" "))
	return !ok || state[0] != 'Z' && state[0] != 'X'
}

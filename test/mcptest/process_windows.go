package mcptest

import (
	"os"
	"syscall"

	"golang.org/x/sys/windows"

	"github.com/mcp-metarouter/metarouter/test/fakeserver"
)

func ownGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{CreationFlags: windows.CREATE_NEW_PROCESS_GROUP}
}

// signalGroup kills the leader: Windows has no signals.
func signalGroup(leader *os.Process, _ syscall.Signal) error { return leader.Kill() }

// Alive reports whether the process runs.
func Alive(pid int) bool {
	if is, runs := fakeserver.IsPlayed(pid); is {
		return runs
	}
	h, err := windows.OpenProcess(windows.PROCESS_QUERY_LIMITED_INFORMATION, false, uint32(pid))
	if err != nil {
		return false
	}
	defer windows.CloseHandle(h)
	const stillActive = 259
	var code uint32
	return windows.GetExitCodeProcess(h, &code) == nil && code == stillActive
}

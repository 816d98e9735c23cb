package early

import "syscall"

// hideProcess is HideProcess of package secret, which would come too late here.
func hideProcess() { syscall.RawSyscall6(syscall.SYS_PRCTL, syscall.PR_SET_DUMPABLE, 0, 0, 0, 0, 0) }

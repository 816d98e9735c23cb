package early

import "syscall"

// hideProcess does what the package secret's HideProcess does, which comes too late here.
func hideProcess() { syscall.RawSyscall6(syscall.SYS_PRCTL, syscall.PR_SET_DUMPABLE, 0, 0, 0, 0, 0) }

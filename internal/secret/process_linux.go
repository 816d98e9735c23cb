package secret

import "golang.org/x/sys/unix"

// HideProcess keeps other processes of the user from reading the memory and the first
// environment of this one: unsetting a variable leaves /proc/PID/environ as it was. No
// debugger can attach then, and a crash leaves no core file. Programs that this process
// executes are not affected. On other systems than Linux it does nothing.
func HideProcess() { unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0) }

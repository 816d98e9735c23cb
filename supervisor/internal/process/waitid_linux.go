package process

import "golang.org/x/sys/unix"

// waitDead returns when the child is dead, and leaves it to be reaped.
func waitDead(pid int) {
	for unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil) == unix.EINTR {
	}
}

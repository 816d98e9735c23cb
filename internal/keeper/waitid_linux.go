package keeper

// WaitDead returns when the child is dead, and leaves it to be reaped.
func WaitDead(pid int) { waitid(pPID, pid) }

// waitAny returns a dead child, and leaves it to be reaped; false if there is no child.
func waitAny() (pid int, ok bool) {
	pid, err := waitid(pAll, 0)
	return pid, err == nil
}

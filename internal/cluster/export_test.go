package cluster

import (
	"testing"
	"time"
)

// SetLeaveWait changes, until the end of the test, how long calls of other nodes may take when a router ends.
func SetLeaveWait(t testing.TB, d time.Duration) {
	before := leaveWait
	leaveWait = d
	t.Cleanup(func() { leaveWait = before })
}

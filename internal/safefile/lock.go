package safefile

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/signal"
)

const (
	// LockTime is how long another process may usually hold a lock.
	LockTime = 2 * time.Minute
	// lockPause is the time between two attempts to take a lock.
	lockPause = 2 * time.Millisecond
)

// Lock takes the lock of the file at path until unlock is called or the process ends. It waits as long as within while
// another process has it. doing says why that process has the lock, for the error: "changes the secrets".
func Lock(ctx context.Context, path string, within time.Duration, doing string) (unlock func(), err error) {
	f, err := OpenOwn(path, os.O_CREATE|os.O_RDWR)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	locked := false
	ended := signal.Poll(ctx, lockPause, func() bool {
		locked, err = TryLock(f)
		return locked || err != nil
	})
	if locked {
		return func() { f.Close() }, nil
	}
	f.Close()
	if !ended {
		return nil, fmt.Errorf("another process %s and does not end (lock %s): %w", doing, path, ctx.Err())
	}
	return nil, fmt.Errorf("lock %s: %w", path, err)
}

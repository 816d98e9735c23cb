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
	// Between two attempts to take a lock, a process waits for shortPause at first, then a hundredth longer each time,
	// and longPause at most.
	shortPause = 2 * time.Millisecond
	longPause  = 50 * time.Millisecond
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
	for pause := shortPause; ; pause = min(pause+pause/100, longPause) {
		locked, err := TryLock(f)
		switch {
		case locked:
			return func() { f.Close() }, nil
		case err != nil:
			f.Close()
			return nil, fmt.Errorf("lock %s: %w", path, err)
		case signal.Within(ctx.Done(), pause):
			f.Close()
			return nil, fmt.Errorf("another process %s and does not end (lock %s): %w", doing, path, ctx.Err())
		}
	}
}

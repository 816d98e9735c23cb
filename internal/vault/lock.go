package vault

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/safefile"
)

const (
	// lockTime is how long another process may hold the lock.
	lockTime = 2 * time.Minute
	// lockPause is the time between two attempts to take it.
	lockPause = 50 * time.Millisecond
)

// Lock takes the lock of the file at path until unlock is called or the process ends. It
// waits up to two minutes while another process has it. doing says why that process has the lock, for the
// error: "changes the secrets".
func Lock(ctx context.Context, path, doing string) (unlock func(), err error) {
	f, err := safefile.OpenOwn(path, os.O_CREATE|os.O_RDWR)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, lockTime)
	defer cancel()
	retry := time.NewTicker(lockPause)
	defer retry.Stop()
	for {
		locked, err := safefile.TryLock(f)
		if locked {
			return func() { f.Close() }, nil
		}
		select {
		case <-retry.C:
		case <-ctx.Done():
			f.Close()
			return nil, fmt.Errorf("another process %s and does not end (lock %s): %w", doing, path, cmp.Or(err, ctx.Err()))
		}
	}
}

package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/safefile"
)

// lock keeps other processes from looking for a router to share and starting one,
// until unlock is called.
func (s Sockets) lock(ctx context.Context) (unlock func(), err error) {
	for until := time.Now().Add(lockWait); ; time.Sleep(lockPoll) {
		unlock, err = s.tryLock()
		switch {
		case err == nil:
			return unlock, nil
		case ctx.Err() != nil:
			return nil, fmt.Errorf("lock: %w", ctx.Err())
		case !errors.Is(err, errLocked), time.Now().After(until):
			return nil, fmt.Errorf("lock: %w", err)
		}
	}
}

const (
	lockWait = 30 * time.Second // others may be waiting for a router to start
	lockPoll = 2 * time.Millisecond
)

// errLocked says that another process has the lock.
var errLocked = errors.New("another process holds the lock")

// tryLock is lock without waiting: it fails with errLocked.
func (s Sockets) tryLock() (unlock func(), err error) {
	if err := s.open(); err != nil {
		return nil, err
	}
	f, err := safefile.OpenOwn(s.lockFile(), os.O_RDWR|os.O_CREATE)
	if err != nil {
		return nil, err
	}
	locked, err := safefile.TryLock(f)
	if err == nil && !locked {
		err = errLocked
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return func() { f.Close() }, nil
}

func (s Sockets) lockFile() string { return filepath.Join(s.dir, "lock."+s.prefix) }

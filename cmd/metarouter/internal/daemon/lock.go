package daemon

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
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

// errLocked says that another process has the lock, or has just removed its file.
var errLocked = errors.New("another process holds the lock")

// tryLock is lock without waiting: it fails with errLocked.
func (s Sockets) tryLock() (unlock func(), err error) {
	if err := s.open(); err != nil {
		return nil, err
	}
	f, err := safefile.OpenOwn(s.lockFile(), os.O_RDWR|os.O_CREATE)
	if errors.Is(err, fs.ErrNotExist) { // tidy has removed the folder meanwhile
		return nil, errLocked
	}
	if err != nil {
		return nil, err
	}
	locked, err := safefile.TryLock(f)
	if err == nil && !(locked && isFile(f, s.lockFile())) {
		err = errLocked // by another process, or tidy has removed the file meanwhile, and others lock a new one
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return func() { f.Close() }, nil
}

func isFile(f *os.File, path string) bool {
	open, _ := f.Stat()
	named, _ := os.Lstat(path)
	return os.SameFile(open, named) // false without one of them
}

func (s Sockets) lockFile() string { return filepath.Join(s.dir, "lock."+s.prefix) }

// tidy removes the sockets of killed routers and, when the last router of these sockets has ended, the
// lock's file and the folder, unless routers with other files use it.
func (s Sockets) tidy() {
	if s.dir == "" || !s.isOurs() {
		return
	}
	unlock, err := s.tryLock()
	if err != nil {
		return // another process looks for a router; it tidies later
	}
	defer unlock()
	if s.probe(shared, true); s.areThere() {
		return
	}
	os.Remove(s.lockFile())
	os.Remove(s.dir) // fails while anything is in it
}

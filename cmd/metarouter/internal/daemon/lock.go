package daemon

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/filelock"
)

// lock keeps other processes from looking for a router to share and starting one,
// until unlock is called.
func (p Place) lock(ctx context.Context) (unlock func(), err error) {
	for until := time.Now().Add(lockWait); ; time.Sleep(lockPoll) {
		unlock, err = p.tryLock()
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
func (p Place) tryLock() (unlock func(), err error) {
	if err := p.open(); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(p.lockFile(), os.O_RDWR|os.O_CREATE, 0o600)
	if errors.Is(err, fs.ErrNotExist) { // tidy has removed the folder meanwhile
		return nil, errLocked
	}
	if err != nil {
		return nil, err
	}
	locked, err := filelock.Try(f)
	if err == nil && !(locked && isFile(f, p.lockFile())) {
		err = errLocked // by another process, or tidy has removed the file meanwhile, and others lock a new one
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return func() { f.Close() }, nil
}

// isFile reports whether the path still leads to the open file.
func isFile(f *os.File, path string) bool {
	open, _ := f.Stat()
	named, _ := os.Lstat(path)
	return os.SameFile(open, named) // false without one of them
}

func (p Place) lockFile() string { return filepath.Join(p.dir, "lock."+p.prefix) }

// tidy removes the sockets of killed routers and, when the last router of the place has ended, the
// lock's file and the folder, unless another place uses it.
func (p Place) tidy() {
	if p.dir == "" || !p.isOurs() {
		return
	}
	unlock, err := p.tryLock()
	if err != nil {
		return // another process looks for a router; it tidies later
	}
	defer unlock()
	if p.removeDead(shared); p.hasSockets() {
		return
	}
	os.Remove(p.lockFile())
	os.Remove(p.dir) // fails while anything is in it
}

// removeDead removes the sockets of a kind that no process listens on. The lock must
// be held: without it, a process may be about to listen.
func (p Place) removeDead(kind string) {
	found, _ := os.ReadDir(p.dir)
	for _, f := range found {
		path := filepath.Join(p.dir, f.Name())
		if !strings.HasPrefix(f.Name(), p.prefix+kind) {
			continue
		}
		if c, err := net.DialTimeout("unix", path, time.Second); err == nil {
			c.Close()
		} else if isRefused(err) {
			os.Remove(path)
		}
	}
}

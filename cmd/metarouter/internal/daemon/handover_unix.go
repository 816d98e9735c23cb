//go:build unix

package daemon

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// CanShare says whether processes can hand over their streams here.
const CanShare = true

// Inherited returns the file that this process was started with. No process that it starts has it.
func Inherited(fd int) *os.File {
	unix.CloseOnExec(fd)
	return os.NewFile(uintptr(fd), "socket")
}

// sendFiles hands over files.
func sendFiles(c *net.UnixConn, files []*os.File) error {
	var fds []int
	for _, f := range files {
		raw, err := f.SyscallConn() // Fd would have reading and writing wait, for all who share the file
		if err == nil {
			err = raw.Control(func(fd uintptr) { fds = append(fds, int(fd)) })
		}
		if err != nil {
			return fmt.Errorf("hand over %s: %w", f.Name(), err)
		}
	}
	_, _, err := c.WriteMsgUnix([]byte{'F'}, unix.UnixRights(fds...), nil)
	runtime.KeepAlive(files)
	return err
}

// receiveFiles takes n files over.
func receiveFiles(c *net.UnixConn, n int) ([]*os.File, error) {
	control := make([]byte, unix.CmsgSpace(4*n))
	_, length, _, _, err := c.ReadMsgUnix(make([]byte, 1), control)
	if err != nil {
		return nil, err
	}
	messages, err := unix.ParseSocketControlMessage(control[:length])
	if err != nil {
		return nil, err
	}
	var files []*os.File
	for _, m := range messages {
		fds, err := unix.ParseUnixRights(&m)
		if err != nil {
			return nil, err
		}
		for _, fd := range fds {
			unix.CloseOnExec(fd)
			files = append(files, os.NewFile(uintptr(fd), "handed over"))
		}
	}
	if len(files) != n {
		closeAll(files)
		return nil, fmt.Errorf("%d files came, not %d", len(files), n)
	}
	return files, nil
}

func closeAll(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}

// NewMemory returns memory that other processes can map too, and the file by which
// it is handed over.
func NewMemory(size int) ([]byte, *os.File, error) {
	f, err := memoryFile()
	if err != nil {
		return nil, nil, fmt.Errorf("make memory to be shared: %w", err)
	}
	if err := errors.Join(f.Truncate(int64(size)), seal(f)); err != nil {
		f.Close()
		return nil, nil, fmt.Errorf("make memory to be shared: %w", err)
	}
	mem, err := mapped(f, size)
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return mem, f, nil
}

// mapped returns the file's first size bytes as memory.
func mapped(f *os.File, size int) ([]byte, error) {
	if info, err := f.Stat(); err != nil || info.Size() < int64(size) || !isSealed(f) {
		return nil, errors.New("the file to be mapped is too short, or may become so")
	}
	mem, err := unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map memory: %w", err)
	}
	return mem, nil
}

func unmap(mem []byte) { unix.Munmap(mem) }

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
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err == nil && !isFile(f, p.lockFile()) {
		err = errLocked // tidy has removed the file meanwhile, and others lock a new one
	}
	if errors.Is(err, unix.EWOULDBLOCK) || errors.Is(err, unix.EINTR) {
		err = errLocked
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return func() { f.Close() }, nil
}

// isFile reports whether the path still leads to the open file.
func isFile(f *os.File, path string) bool {
	open, err := f.Stat()
	if err != nil {
		return false
	}
	named, err := os.Lstat(path)
	return err == nil && os.SameFile(open, named)
}

func (p Place) lockFile() string { return filepath.Join(p.dir, "lock."+p.prefix) }

// tidy removes what the routers of the place leave behind when the last one has
// ended: the sockets of killed ones, the lock's file and, unless another place uses
// it, the folder.
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
		} else if errors.Is(err, unix.ECONNREFUSED) {
			os.Remove(path)
		}
	}
}

// detach has the command run in a session of its own, without the files that were left
// open in this process: the command would keep them open for longer.
func detach(c *exec.Cmd) {
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	open, _ := os.ReadDir("/dev/fd")
	for _, f := range open {
		if fd, err := strconv.Atoi(f.Name()); err == nil && fd > 2 {
			unix.CloseOnExec(fd)
		}
	}
}

// isPrivate reports whether the folder is this user's, and closed to others.
func isPrivate(folder fs.FileInfo) bool {
	st, ok := folder.Sys().(*syscall.Stat_t)
	return ok && int(st.Uid) == os.Geteuid() && folder.Mode().Perm()&0o077 == 0
}

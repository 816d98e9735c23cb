//go:build unix

package console

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

const (
	maxLine  = 4096                   // bytes of a line that is read
	lookLine = 100 * time.Millisecond // between two looks whether ctx has ended
)

// ReadLine drops earlier input of the terminal f, calls question, and returns the line that is
// typed then. While this process is in the background of the terminal, it waits: to read then
// would stop the process. It returns ctx's error soon after ctx has ended.
func ReadLine(ctx context.Context, f *os.File, question func()) (string, error) {
	fd := int(f.Fd())
	var line []byte
	buf := make([]byte, maxLine)
	for dropped := false; ; {
		wait := lookLine
		if !dropped {
			wait = 0
		}
		ready, err := readable(fd, wait)
		switch {
		case ctx.Err() != nil:
			return "", context.Cause(ctx)
		case err != nil:
			return "", err
		case !inForeground(fd):
			select {
			case <-time.After(lookLine):
			case <-ctx.Done():
			}
			continue
		case !ready && !dropped:
			dropped = true
			question()
			continue
		case !ready:
			continue
		}
		n, err := unix.Read(fd, buf)
		switch {
		case errors.Is(err, unix.EINTR) || errors.Is(err, unix.EAGAIN):
			continue
		case err != nil:
			return "", err
		case n == 0:
			return "", io.EOF
		case !dropped:
			continue
		}
		line = append(line, buf[:n]...)
		if end := bytes.IndexAny(line, "\r\n"); end >= 0 || len(line) >= maxLine {
			return string(line[:max(end, 0)]), nil
		}
	}
}

// readable reports whether there is something to read within the time.
func readable(fd int, within time.Duration) (bool, error) {
	var set unix.FdSet
	if fd < 0 || fd >= unix.FD_SETSIZE {
		return false, fmt.Errorf("the terminal has the file number %d", fd)
	}
	set.Set(fd)
	left := unix.NsecToTimeval(within.Nanoseconds())
	n, err := unix.Select(fd+1, &set, nil, nil, &left) // macOS can't poll a terminal
	if errors.Is(err, unix.EINTR) {
		return false, nil
	}
	return n > 0, err
}

// inForeground reports whether this process may read from its terminal. For a terminal that
// is not the one of its session, the system has no such rule.
func inForeground(fd int) bool {
	group, err := unix.IoctlGetInt(fd, unix.TIOCGPGRP)
	return err != nil || group == unix.Getpgrp()
}

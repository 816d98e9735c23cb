//go:build unix

package console

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const (
	maxLine  = 4096                   // bytes of a line that is read
	lookLine = 100 * time.Millisecond // between two looks whether ctx has ended
)

// ReadLine drops earlier input of the terminal, calls question, and returns the line that the person
// types then, if [Console.CanAsk]. It returns ctx's cause soon after ctx has ended.
func ReadLine(ctx context.Context, c *Console, question func()) (string, error) {
	fd, line := int(c.Streams[0].(*os.File).Fd()), make([]byte, maxLine)
	for asked := false; ; {
		wait := lookLine
		if !asked {
			wait = 0
		}
		ready, err := readable(fd, wait)
		switch {
		case ctx.Err() != nil:
			return "", context.Cause(ctx)
		case err != nil:
			return "", err
		case !ready && !asked:
			asked = true
			question()
			continue
		case !ready:
			continue
		}
		n, err := unix.Read(fd, line) // of a terminal, at most one line
		switch {
		case errors.Is(err, unix.EINTR) || errors.Is(err, unix.EAGAIN):
		case err != nil:
			return "", err
		case n == 0:
			return "", io.EOF
		case asked:
			return strings.TrimRight(string(line[:n]), "\r\n"), nil
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

// isPlain reports whether the terminal understands nothing but lines.
func isPlain(_ *os.File, getenv func(string) string) bool {
	return getenv("TERM") == "dumb" || getenv("TERM") == ""
}

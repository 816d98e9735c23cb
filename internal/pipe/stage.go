//go:build unix

package pipe

import (
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// A Stage is a pipe before another file. What is put into it moves on inside the kernel: each
// byte is in the stage or has moved on, even if the process is killed meanwhile. Other processes
// that have the stage's files see which. One goroutine at a time may use a Stage.
type Stage struct {
	r, w *os.File

	mu     sync.Mutex // held while a descriptor is used
	closed bool
	fds    [2]uintptr // of r and w

	move *attempt // to end
	end  *End
	left int // bytes to move
}

// NewStage returns an empty stage.
func NewStage() (*Stage, error) {
	var fds [2]int
	if err := unix.Pipe(fds[:]); err != nil {
		return nil, fmt.Errorf("make a pipe: %w", err)
	}
	return StageOf(os.NewFile(uintptr(fds[0]), "stage"), os.NewFile(uintptr(fds[1]), "stage"))
}

// StageOf returns the stage with these files, which it closes.
func StageOf(r, w *os.File) (*Stage, error) {
	s := &Stage{r: r, w: w}
	for i, f := range []*os.File{r, w} {
		raw, err := f.SyscallConn()
		if err == nil {
			err = raw.Control(func(fd uintptr) {
				unix.CloseOnExec(int(fd))
				_ = unix.SetNonblock(int(fd), true)
				s.fds[i] = fd
			})
		}
		if err != nil {
			return nil, err
		}
	}
	return s, nil
}

// Files returns the files of the stage.
func (s *Stage) Files() []*os.File { return []*os.File{s.r, s.w} }

// Close closes the files of the stage.
func (s *Stage) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.r.Close()
	s.w.Close()
}

// Leads reports whether what is in the stage can move on to w.
func (s *Stage) Leads(w io.Writer) (*End, bool) {
	e, ok := w.(*End)
	return e, ok && s != nil && canSplice && e.write != nil
}

// Put puts p into the empty stage, and reports whether it fits; the stage stays empty otherwise.
func (s *Stage) Put(p []byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	if n, _ := quickly(syscall.SYS_WRITE, s.fds[1], p); n < len(p) {
		s.take()
		return false
	}
	return true
}

// Take takes everything out of the stage and returns it.
func (s *Stage) Take() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.take()
}

// take is Take with s.mu held.
func (s *Stage) take() (p []byte) {
	buffer := make([]byte, usual)
	for !s.closed {
		n, err := unix.Read(int(s.fds[0]), buffer)
		if n <= 0 || err != nil {
			break
		}
		p = append(p, buffer[:n]...)
	}
	return p
}

// Len returns how many bytes are in the stage.
func (s *Stage) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return 0
	}
	return unread(s.fds[0])
}

// Move moves the n bytes in the stage on to e, and waits until they are there. If e does not
// support that, Move writes them to it.
func (s *Stage) Move(e *End, n int) error {
	if s.end != e {
		s.end, s.move = e, &attempt{wait: e.write.wait}
		s.move.do = func(fd uintptr) bool {
			s.move.n, s.move.errno = s.splice(fd)
			return s.move.errno != syscall.EAGAIN // on EAGAIN the runtime waits and calls again
		}
	}
	for s.left = n; s.left > 0; s.left -= s.move.n {
		if err := s.move.wait(s.move.do); err != nil {
			return fmt.Errorf("write: %w", err)
		}
		switch {
		case s.move.errno == syscall.EINVAL:
			_, err := e.Write(s.Take())
			return err
		case s.move.errno != 0:
			return fmt.Errorf("write: %w", s.move.errno)
		case s.move.n == 0:
			return io.ErrShortWrite
		}
	}
	return nil
}

// splice moves what fits into the file.
func (s *Stage) splice(to uintptr) (int, syscall.Errno) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return 0, syscall.EBADF
	}
	return splice(s.fds[0], to, uintptr(s.left))
}

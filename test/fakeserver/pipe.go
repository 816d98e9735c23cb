package fakeserver

import (
	"io"
	"os"
	"sync"
	"time"
)

// pipeSize is how many bytes a pipe holds, as one of Linux does.
const pipeSize = 64 << 10

// A pipe is one in memory.
type pipe struct {
	mu       sync.Mutex // guards all below
	change   *sync.Cond
	held     []byte
	closed   [2]bool // the end to read from, and the end to write to
	deadline time.Time
	timer    *time.Timer
}

// A reader and a writer are the ends of a pipe.
type (
	reader struct{ *pipe }
	writer struct{ *pipe }
)

func newPipe() (reader, writer) {
	p := &pipe{}
	p.change = sync.NewCond(&p.mu)
	return reader{p}, writer{p}
}

func (p *pipe) close(end int) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed[end] = true
	p.change.Broadcast()
	return nil
}

func (r reader) Close() error { return r.close(0) }
func (w writer) Close() error { return w.close(1) }

// Read implements [io.Reader].
func (r reader) Read(b []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(r.held) == 0 && !r.closed[0] && !r.closed[1] {
		r.change.Wait()
	}
	switch {
	case r.closed[0]:
		return 0, os.ErrClosed
	case len(r.held) == 0:
		return 0, io.EOF
	}
	n := copy(b, r.held)
	r.held = r.held[n:]
	r.change.Broadcast()
	return n, nil
}

// Write implements [io.Writer].
func (w writer) Write(b []byte) (n int, err error) {
	for n < len(b) && err == nil {
		w.mu.Lock()
		for err = w.full(); err == nil && len(w.held) >= pipeSize; err = w.full() {
			w.change.Wait()
		}
		w.mu.Unlock()
		if err == nil {
			var wrote int
			wrote, err = w.TryWrite(b[n:])
			n += wrote
		}
	}
	return n, err
}

// full returns why nothing can be written even to an empty pipe.
func (w writer) full() error {
	switch {
	case w.closed[1]:
		return os.ErrClosed
	case w.closed[0]:
		return io.ErrClosedPipe
	case !w.deadline.IsZero() && !time.Now().Before(w.deadline):
		return os.ErrDeadlineExceeded
	}
	return nil
}

// TryWrite writes as much as there is room for.
func (w writer) TryWrite(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed[1] || w.closed[0] {
		return 0, w.full()
	}
	n := min(len(b), pipeSize-len(w.held))
	w.held = append(w.held, b[:n]...)
	w.change.Broadcast()
	return n, nil
}

// SetWriteDeadline has a Write that waits fail at a time.
func (w writer) SetWriteDeadline(t time.Time) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.deadline = t; w.timer != nil {
		w.timer.Stop()
	}
	if !t.IsZero() {
		w.timer = time.AfterFunc(time.Until(t), w.change.Broadcast)
	}
	return nil
}

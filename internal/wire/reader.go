package wire

import (
	"bytes"
	"errors"
	"io"
)

// MaxLine is the default bound of one message: 64 MiB.
const MaxLine = 64 << 20

// ErrTooLong is the error of Next for a line above the limit. The line was skipped; the next
// call returns the line after it.
var ErrTooLong = errors.New("line longer than the limit")

const (
	minBuffer = 4 << 10
	// Lines above this length keep the buffer into which they were read; shorter ones are
	// copied.
	handOver = 64 << 10
)

// A Reader reads lines from a stream.
type Reader struct {
	r          io.Reader
	max        int
	buf        []byte
	start, end int // the unread part of buf
	long       int // the length of the last long line: the next one may be as long
	skipping   bool
	skipped    Ends // of the line that was skipped last
}

// Ends are the beginning and the end of a line that was too long to be kept.
type Ends struct{ Head, Tail []byte }

const maxEnd = 1 << 10 // bytes of each

// Add adds the next part of the line.
func (e *Ends) Add(part []byte) {
	e.Head = append(e.Head, part[:min(len(part), maxEnd-len(e.Head))]...)
	if n := len(part) - maxEnd; n > 0 {
		e.Tail, part = nil, part[n:]
	} else if n := len(e.Tail) + len(part) - maxEnd; n > 0 {
		e.Tail = e.Tail[n:]
	}
	e.Tail = append(e.Tail, part...)
}

// NewReader returns a Reader for the lines of r that are at most max bytes long.
func NewReader(r io.Reader, max int) *Reader {
	return &Reader{r: r, max: max, buf: make([]byte, minBuffer)}
}

// Next returns the next line that is not blank, without its line end. The caller owns it. The
// last line needs no line end. At the end of the stream Next returns io.EOF.
func (r *Reader) Next() ([]byte, error) {
	searched := r.start
	for {
		if i := bytes.IndexByte(r.buf[searched:r.end], '\n'); i >= 0 {
			line, err := r.take(searched + i)
			if err != nil || len(line) > 0 {
				return line, err
			}
			searched = r.start
			continue
		}
		searched = r.end
		if r.end-r.start > r.max && !r.skipping {
			r.skipping, r.skipped = true, Ends{}
		}
		if r.skipping {
			r.skipped.Add(r.buf[r.start:r.end])
			r.start, r.end, searched = 0, 0, 0
		}
		if r.end == len(r.buf) {
			searched -= r.start
			r.makeRoom()
		}
		n, err := r.r.Read(r.buf[r.end:])
		r.end += n
		if n == 0 && err != nil {
			if r.end > r.start || r.skipping {
				line, takeErr := r.take(r.end)
				if takeErr != nil || len(line) > 0 {
					return line, takeErr
				}
			}
			return nil, err
		}
	}
}

// Skipped returns the ends of the line for which Next last returned ErrTooLong.
func (r *Reader) Skipped() Ends { return r.skipped }

// makeRoom moves the unread part to the front of a buffer with free space.
func (r *Reader) makeRoom() {
	to := r.buf
	if r.start == 0 {
		to = make([]byte, max(2*len(r.buf), r.long+r.long/8))
	}
	r.end = copy(to, r.buf[r.start:r.end])
	r.start, r.buf = 0, to
}

// take returns the line that ends before buf[i] and continues after it.
func (r *Reader) take(i int) ([]byte, error) {
	line := r.buf[r.start:i]
	next := min(i+1, r.end)
	if r.skipping || len(line) > r.max {
		if !r.skipping {
			r.skipped = Ends{}
		}
		r.skipped.Add(line)
		r.skipping, r.start = false, next
		return nil, ErrTooLong
	}
	if len(line) < handOver {
		r.long = 0
		r.start = next
		if len(r.buf) > handOver && r.end-r.start < minBuffer {
			small := make([]byte, minBuffer)
			line = bytes.Clone(bytes.TrimSpace(line))
			r.end = copy(small, r.buf[r.start:r.end])
			r.start, r.buf = 0, small
			return line, nil
		}
		return bytes.Clone(bytes.TrimSpace(line)), nil
	}
	r.long = len(line)
	rest := r.buf[next:r.end]
	buf := make([]byte, max(minBuffer, 2*len(rest)))
	r.end = copy(buf, rest)
	r.start, r.buf = 0, buf
	return bytes.TrimSpace(line), nil
}

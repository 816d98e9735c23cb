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
	// Objects has Next return a JSON object as soon as it is complete, though it has several
	// lines, or more follows on its line. It may change between calls of Next.
	Objects bool
	Shape   Shape // of the line that Next returned last

	r          io.Reader
	max        int
	buf        []byte
	start, end int // the unread part of buf
	long       int // the length of the last long line: the next one may be as long
	skipping   bool
	skipped    Ends // of the line that was skipped last
}

// A Shape says how an object or a text stands in its lines.
type Shape int

const (
	Line     Shape = iota // a line of its own
	Indented              // several lines
	Part                  // a part of a line
	Unended               // a line without its end
)

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
	if r.Shape = Line; r.Objects {
		return r.object()
	}
	return r.line()
}

func (r *Reader) line() ([]byte, error) {
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
		if r.skipIfLong(); r.skipping {
			r.skipped.Add(r.buf[r.start:r.end])
			r.start, r.end = 0, 0
		}
		searched = r.end - r.start
		err := r.fill()
		searched += r.start
		if err != nil {
			return r.last(err)
		}
	}
}

// object returns the next object, or a line that does not begin one. Lines that begin an object
// and are not continued are returned together.
func (r *Reader) object() ([]byte, error) {
	var object Brackets
	counted := 0 // bytes of the unread part
	for {
		part := r.buf[r.start+counted : r.end]
		end := bytes.IndexByte(part, '\n')
		next := r.start + counted + end + 1 // the beginning of the next line, if there is one
		if end >= 0 {
			part = part[:end]
		}
		counted += object.Count(part)
		switch {
		case object.Closed():
			return r.cut(r.start + counted), nil
		case end >= 0 && (!object.Open() || next < r.end && bytes.IndexByte(continues, r.buf[next]) < 0):
			line, err := r.take(next - 1)
			if err != nil || len(line) > 0 {
				return line, err
			}
			object, counted = Brackets{}, 0
			continue
		case end >= 0 && next < r.end:
			r.Shape = Indented
			counted++
			continue
		}
		if r.skipIfLong(); r.skipping {
			return r.line()
		}
		if err := r.fill(); err != nil {
			return r.last(err)
		}
	}
}

// continues are the bytes with which the further lines of an object begin. The next message begins
// with "{", too.
var continues = []byte(" \t\r\n}]\"[,")

// cut returns the bytes before buf[i], and continues there.
func (r *Reader) cut(i int) []byte {
	object := bytes.Clone(bytes.TrimSpace(r.buf[r.start:i]))
	rest, _, ended := bytes.Cut(r.buf[i:r.end], []byte("\n"))
	switch {
	case len(bytes.TrimSpace(rest)) > 0:
		r.Shape = Part
	case r.Shape == Line && !ended:
		r.Shape = Unended
	}
	r.start = i
	return object
}

// Again has Next read a line, which it returned last, once more.
func (r *Reader) Again(line []byte) {
	rest := r.buf[r.start:r.end]
	r.buf = make([]byte, max(minBuffer, len(line)+1+2*len(rest)))
	n := copy(r.buf, line)
	r.buf[n] = '\n'
	r.start, r.end = 0, n+1+copy(r.buf[n+1:], rest)
}

// skipIfLong begins to skip a line that is too long.
func (r *Reader) skipIfLong() {
	if r.end-r.start > r.max && !r.skipping {
		r.skipping, r.skipped = true, Ends{}
	}
}

// fill reads more. Its error is the stream's, when nothing more was read.
func (r *Reader) fill() error {
	if r.end == len(r.buf) {
		r.makeRoom()
	}
	n, err := r.r.Read(r.buf[r.end:])
	if r.end += n; n > 0 {
		return nil
	}
	return err
}

// last returns the end of the stream if it has no line end, else its error.
func (r *Reader) last(err error) ([]byte, error) {
	if r.end > r.start || r.skipping {
		if line, err := r.take(r.end); err != nil || len(line) > 0 {
			return line, err
		}
	}
	return nil, err
}

// Skipped returns the ends of the line for which Next last returned ErrTooLong.
func (r *Reader) Skipped() Ends { return r.skipped }

// makeRoom moves the unread part to the front of a buffer with free space.
func (r *Reader) makeRoom() {
	to := r.buf
	if r.start == 0 {
		to = make([]byte, min(max(2*len(r.buf), r.long+r.long/8), r.max+handOver)) // a longer line is skipped
	}
	r.moveTo(to)
}

// moveTo moves the unread part to the front of a buffer.
func (r *Reader) moveTo(buf []byte) {
	r.end = copy(buf, r.buf[r.start:r.end])
	r.start, r.buf = 0, buf
}

// take returns the line that ends before buf[i] and continues after it.
func (r *Reader) take(i int) ([]byte, error) {
	line := r.buf[r.start:i]
	r.start = min(i+1, r.end)
	if r.skipping || len(line) > r.max {
		if !r.skipping {
			r.skipped = Ends{}
		}
		r.skipped.Add(line)
		r.skipping = false
		return nil, ErrTooLong
	}
	if len(line) >= handOver {
		r.long = len(line)
		r.moveTo(make([]byte, max(minBuffer, 2*(r.end-r.start))))
		return bytes.TrimSpace(line), nil
	}
	r.long = 0
	line = bytes.Clone(bytes.TrimSpace(line))
	if len(r.buf) > handOver && r.end-r.start < minBuffer {
		r.moveTo(make([]byte, minBuffer))
	}
	return line, nil
}

package wire

import (
	"bufio"
	"bytes"
	"io"
	"strconv"
	"sync/atomic"
	"time"
)

// An Event is one server-sent event.
type Event struct {
	Name  string        // "" is "message"
	Data  []byte        // owned by the caller of Next; nil without data
	ID    string        // if HasID
	HasID bool          // an empty ID resets the stream's last id
	Cut   bool          // the stream has ended before the event's blank line
	Retry time.Duration // to wait before the next connection; 0 if absent
}

// A Reader reads a stream of events.
type EventReader struct {
	// Open, if it is set, is true while an event has data and not yet its blank line.
	Open *atomic.Bool

	r       *bufio.Reader
	max     int  // bytes of an event's data, and of a line
	begun   bool // the first line was read
	afterCR bool // a line feed next belongs to the previous line end
	buf     []byte
	skipped Ends // of the last event above the limit
}

// NewEventReader returns a reader of the events in r. An event may have at most max bytes of data.
func NewEventReader(r io.Reader, max int) *EventReader {
	return &EventReader{r: bufio.NewReaderSize(r, 16<<10), max: max}
}

// Next returns the next event that is not empty. The error is [wire.ErrTooLong] for an event above
// the limit, which was skipped, and the error of the stream at its end. The end of the stream
// ends an event too, since some servers omit the last blank line.
func (e *EventReader) Next() (Event, error) {
	var ev Event
	filled, tooLong := false, false
	if e.Open != nil {
		defer e.Open.Store(false)
	}
	for {
		line, err := e.line()
		switch {
		case err == ErrTooLong:
			filled, tooLong = true, true
			continue
		case err != nil && ev.Data == nil && !tooLong:
			return Event{}, err
		case err == nil && len(line) > 0:
			filled = ev.field(line) || filled
			if e.Open != nil && ev.Data != nil {
				e.Open.Store(true)
			}
			if !tooLong && len(ev.Data) > e.max {
				tooLong, e.skipped = true, Ends{}
				e.skipped.Add(ev.Data)
			}
			if tooLong {
				ev.Data = nil
			}
			continue
		}
		switch ev.Cut = err != nil; {
		case tooLong:
			return ev, ErrTooLong
		case filled:
			return ev, nil
		}
	}
}

// Skipped returns the ends of the data for which Next last returned [wire.ErrTooLong]; the end is
// unknown if the data had several lines.
func (e *EventReader) Skipped() Ends {
	ends := e.skipped
	ends.Head = bytes.TrimPrefix(ends.Head, []byte("data:"))
	return ends
}

// field adds the field in one line and reports whether the line has one.
func (ev *Event) field(line []byte) bool {
	name, value, _ := bytes.Cut(line, []byte(":"))
	value = bytes.TrimPrefix(value, []byte(" "))
	switch string(name) {
	case "data":
		if ev.Data == nil {
			ev.Data = make([]byte, 0, len(value))
		} else {
			ev.Data = append(ev.Data, '\n')
		}
		ev.Data = append(ev.Data, value...)
	case "event":
		ev.Name = string(value)
	case "id":
		if bytes.IndexByte(value, 0) >= 0 {
			return false
		}
		ev.ID, ev.HasID = string(value), true
	case "retry":
		ms, err := strconv.ParseUint(string(value), 10, 31)
		if err != nil {
			return false
		}
		ev.Retry = time.Duration(ms) * time.Millisecond
	default: // a comment, or unknown
		return false
	}
	return true
}

// line returns the next line without its end, which is CR LF, LF or CR. It is valid until the
// next call. A last line may lack its end if the stream ends as it should.
func (e *EventReader) line() ([]byte, error) {
	e.buf = e.buf[:0]
	tooLong := false
	for {
		if _, err := e.r.Peek(1); err != nil {
			if err == io.EOF && len(e.buf) > 0 && !tooLong {
				return e.withoutMark(), nil
			}
			return nil, err
		}
		chunk, _ := e.r.Peek(e.r.Buffered())
		if e.afterCR && chunk[0] == '\n' {
			e.afterCR = false
			e.r.Discard(1)
			continue
		}
		e.afterCR = false
		end := bytes.IndexAny(chunk, "\r\n")
		part := chunk
		if end >= 0 {
			part = chunk[:end]
		}
		if !tooLong && len(e.buf)+len(part) > e.max {
			tooLong, e.skipped = true, Ends{}
			e.skipped.Add(e.buf)
		}
		if tooLong {
			e.skipped.Add(part)
		} else {
			e.buf = append(e.buf, part...)
		}
		if end < 0 {
			e.r.Discard(len(chunk))
			continue
		}
		e.afterCR = chunk[end] == '\r'
		e.r.Discard(end + 1)
		if tooLong {
			return nil, ErrTooLong
		}
		return e.withoutMark(), nil
	}
}

// withoutMark returns the line without the byte order mark that may begin the stream.
func (e *EventReader) withoutMark() []byte {
	line := e.buf
	if !e.begun {
		e.begun = true
		line = bytes.TrimPrefix(line, []byte("\ufeff"))
	}
	if cap(e.buf) > 1<<20 { // do not keep a large buffer for one long line
		e.buf = nil
	}
	return line
}

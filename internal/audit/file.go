package audit

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/logfile"
	"github.com/mcp-metarouter/metarouter/internal/safefile"
	"github.com/mcp-metarouter/metarouter/internal/wire"
)

// maxTail is how much of the end of a file is read to find its last line.
const maxTail = 3 * maxLine

// A chain is the state after a line: its number and its hash. The zero value is that before the
// first line.
type chain struct {
	seq  int64
	hash string
}

// A file is the log on disk. It belongs to one goroutine; other processes may use the same one.
type file struct {
	logfile.File
	last  chain   // that this process wrote
	notes []Entry // about faults of the file, until they are written
}

// create creates the file, and fails if other users can change it.
func (f *file) create() error {
	if err := f.Create(); err != nil {
		return err
	}
	return safefile.OwnersOnly(f.Path)
}

// append writes all entries or none, after it has set their numbers and hashes.
func (f *file) append(ctx context.Context, entries []Entry) error {
	unlock, err := f.Lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	at, size, err := f.end()
	if err != nil {
		return err
	}
	shifted := f.Shift(size)
	if err := f.create(); err != nil {
		return err
	}
	var lines []byte
	for _, e := range append(slices.Clip(f.notes), entries...) {
		e.Seq, e.Prev, e.Rotated = at.seq+1, at.hash, at.seq > 0 && (size == 0 || shifted) && len(lines) == 0
		line := wire.Marshal(e)
		lines = append(append(lines, line...), '\n')
		at = chain{e.Seq, hashOf(line)}
	}
	if err := f.Write(lines); err != nil {
		return err // the lines will be written again
	}
	if f.last, f.notes = at, nil; shifted {
		f.RemoveOldest()
	}
	return nil
}

// end returns the state after the last line, and the size of the file. It cuts off an incomplete
// line and renames a damaged file, and notes that.
func (f *file) end() (at chain, size int64, err error) {
	of := f.Path
	line, size, half, err := lastLine(of)
	if half > 0 {
		if err := os.Truncate(of, size); err != nil {
			return chain{}, 0, err
		}
		f.note(Gap, fmt.Sprintf("an incomplete line of %d bytes was cut off: a process ended while it wrote", half))
	}
	if older := logfile.Old(f.Path); err == nil && size == 0 && len(older) > 0 { // a process ended before it wrote to the new file
		of = older[len(older)-1]
		line, _, _, err = lastLine(of)
	}
	if err != nil {
		return chain{}, 0, err
	}
	if line != nil {
		e, err := parse(line)
		if err != nil {
			f.note(Tampered, "the last line of "+filepath.Base(of)+" is damaged; the numbers begin again")
			if f.last = (chain{}); of != f.Path {
				return chain{}, 0, nil
			}
			return chain{}, 0, f.Rename()
		}
		at = chain{e.Seq, hashOf(line)}
	}
	if at.seq < f.last.seq || at.seq == f.last.seq && at != f.last {
		f.note(Tampered, fmt.Sprintf("a router wrote up to line %d with the hash %s; then the last line was %d", f.last.seq, f.last.hash, at.seq))
		f.last = at
	}
	return at, size, nil
}

// note adds an entry by which the log speaks of itself; once, if what could not be written is tried again.
func (f *file) note(action, reason string) {
	if n := len(f.notes); n == 0 || f.notes[n-1].Reason != reason {
		f.notes = append(f.notes, entryOf(action, reason))
	}
}

// lastLine returns the last complete line of a file, nil without one, the size up to its end,
// and the size of the incomplete line after it. A line that is too long is cut.
func lastLine(path string) (line []byte, size, half int64, err error) {
	r, err := safefile.OpenOwn(path, os.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, 0, 0, nil
	}
	if err != nil {
		return nil, 0, 0, err
	}
	defer r.Close()
	size, err = r.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, 0, 0, err
	}
	from := max(0, size-maxTail)
	b, err := io.ReadAll(io.NewSectionReader(r, from, size-from))
	end := bytes.LastIndexByte(b, '\n')
	switch {
	case err != nil:
		return nil, 0, 0, err
	case end < 0 && from > 0: // no line of ours is so long
		return b, size, 0, nil
	case end < 0:
		return nil, 0, size, nil
	}
	return b[bytes.LastIndexByte(b[:end], '\n')+1 : end : end], from + int64(end+1), int64(len(b) - end - 1), nil
}

// timeFormat is RFC 3339 in UTC with milliseconds.
const timeFormat = "2006-01-02T15:04:05.000Z"

// maxLine bounds a line, in bytes. A cleaned event needs less than half of it.
const maxLine = 8 << 10

// An Entry is a line of the log.
type Entry struct {
	Time string `json:"time"` // RFC 3339, UTC
	Seq  int64  `json:"seq"`  // its number, from 1 on
	Prev string `json:"prev"` // the SHA-256 of the line before, without its end, in hexadecimal; "" in the first line

	// Rotated is set in the first line of a file that follows a full one, which may no longer be kept.
	Rotated bool `json:"rotated,omitempty"`
	Event
}

// now returns the time of an entry.
func now() string { return time.Now().UTC().Format(timeFormat) }

// entryOf returns an entry by which the log speaks of itself.
func entryOf(action, reason string) Entry {
	return Entry{Time: now(), Event: Event{Action: action, Outcome: Failed, Reason: reason}}
}

// parse returns the entry that a line has.
func parse(line []byte) (e Entry, err error) {
	err = json.Unmarshal(line, &e)
	if _, noTime := time.Parse(time.RFC3339, e.Time); err != nil || noTime != nil || len(line) > maxLine || e.Seq < 1 || e.Action == "" {
		return Entry{}, errors.New("it is no event of this log")
	}
	return e, nil
}

// hashOf returns the hash of a line, in hexadecimal.
func hashOf(line []byte) string { return fmt.Sprintf("%x", sha256.Sum256(line)) }

package audit

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/safefile"
	"github.com/mcp-metarouter/metarouter/internal/vault"
)

const (
	// lockTime is how long another process may hold the lock.
	lockTime = 10 * time.Second

	// maxTail is how much of the end of a file is read to find its last line.
	maxTail = 3 * maxLine
)

// A chain is the state after a line: its number and its hash. The zero value is that before the
// first line.
type chain struct {
	seq  int64
	hash string
}

// A file is the log on disk. It belongs to one goroutine; other processes may use the same one.
// It is not kept open between two writes, so that each process can rename it.
type file struct {
	path     string
	maxSize  int64
	maxFiles int
	last     chain   // that this process wrote
	notes    []Entry // about faults of the file, until they are written
}

// lock takes the lock of the log. Every writer holds it from the look at the last line until the
// next lines are written.
func (f *file) lock(ctx context.Context) (unlock func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, lockTime)
	defer cancel()
	return vault.Lock(ctx, f.path+".lock", "writes to the audit log")
}

// append writes all entries or none, after it has set their numbers and hashes. A full file is renamed first; a file that
// can't be renamed now goes on.
func (f *file) append(ctx context.Context, entries []Entry) error {
	unlock, err := f.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	at, size, err := f.end()
	if err != nil {
		return err
	}
	if size >= f.maxSize && f.shift() == nil {
		size = 0
	}
	var lines []byte
	for _, e := range append(slices.Clip(f.notes), entries...) {
		e.Seq, e.Prev, e.Rotated = at.seq+1, at.hash, at.seq > 0 && size == 0 && len(lines) == 0
		line := e.line()
		lines = append(append(lines, line...), '\n')
		at = chain{e.Seq, hashOf(line)}
	}
	if err := f.write(lines, size); err != nil {
		return err
	}
	f.last, f.notes = at, nil
	older := oldFiles(f.path)
	for _, name := range older[:max(0, len(older)+1-f.maxFiles)] {
		os.Remove(name)
	}
	return nil
}

// write writes whole lines with one system call to the file, which has this size. If not all of them can be written, the file
// stays as it was.
func (f *file) write(lines []byte, size int64) error {
	w, err := f.open()
	if err != nil {
		return err
	}
	defer w.Close()
	if _, err = w.Write(lines); err == nil {
		err = w.Sync()
	}
	if err != nil { // the lines will be written again
		return errors.Join(err, os.Truncate(f.path, size))
	}
	return nil
}

// open opens the file for appending. Other users must not be able to change it.
func (f *file) open() (*os.File, error) {
	w, err := safefile.Append(f.path, 0)
	if err != nil {
		return nil, err
	}
	if err := safefile.OwnersOnly(f.path); err != nil {
		w.Close()
		return nil, err
	}
	return w, nil
}

// end returns the state after the last line, and the size of the file. It cuts off an incomplete
// line and renames a damaged file, and notes that.
func (f *file) end() (at chain, size int64, err error) {
	of := f.path
	line, size, half, err := lastLine(of)
	if half > 0 {
		if err := os.Truncate(of, size); err != nil {
			return chain{}, 0, err
		}
		f.note(Gap, fmt.Sprintf("an incomplete line of %d bytes was cut off: a process ended while it wrote", half))
	}
	if older := oldFiles(f.path); err == nil && size == 0 && len(older) > 0 { // a process ended before it wrote to the new file
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
			if f.last = (chain{}); of != f.path {
				return chain{}, 0, nil
			}
			return chain{}, 0, f.shift()
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

// shift renames the full file. Windows does not rename a file that another program reads.
func (f *file) shift() error {
	next := 1
	if older := oldFiles(f.path); len(older) > 0 {
		next += numberOf(f.path, older[len(older)-1])
	}
	return os.Rename(f.path, f.path+"."+strconv.Itoa(next))
}

// oldFiles returns the renamed files of a log, the oldest first.
func oldFiles(path string) (older []string) {
	entries, _ := os.ReadDir(filepath.Dir(path))
	for _, entry := range entries {
		if name := filepath.Join(filepath.Dir(path), entry.Name()); numberOf(path, name) > 0 {
			older = append(older, name)
		}
	}
	slices.SortFunc(older, func(a, b string) int { return cmp.Compare(numberOf(path, a), numberOf(path, b)) })
	return older
}

// numberOf returns the number of a renamed file, 0 for other names.
func numberOf(path, renamed string) int {
	digits, _ := strings.CutPrefix(renamed, path+".")
	if n, err := strconv.Atoi(digits); err == nil && strconv.Itoa(n) == digits {
		return max(n, 0)
	}
	return 0
}

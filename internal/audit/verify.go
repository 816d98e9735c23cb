package audit

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/mcp-metarouter/metarouter/internal/logfile"
	"github.com/mcp-metarouter/metarouter/internal/safefile"
)

// A Report describes a log that [Verify] found intact.
type Report struct {
	Events  int64
	Removed int64    // events before the first one, which were in files that are no longer kept
	First   string   // the time of the first event
	Last    string   // the time of the last event
	Hash    string   // of the last line
	After   int64    // events after the line of the given hash
	Gaps    []string // where the log itself says that something is missing, and why: the first 100
}

// Verify reads a log with all files that are kept, the oldest first. hash, if it is not "", must be
// the hash of a line of the log, or of the last line before it. The error names the first place
// where the log is not intact, or is about reading. A log without any file is [fs.ErrNotExist].
func Verify(ctx context.Context, path, hash string) (Report, error) {
	v := verifier{want: hash}
	err := read(ctx, path, v.next)
	if err == nil && hash != "" && !v.found {
		err = fmt.Errorf("%s: no line has the hash %s: the log was cut or written again after the hash was noted, or its file is no longer kept", path, hash)
	}
	return v.Report, err
}

// A line is one of the log's files.
type line struct {
	text   []byte // without its end; valid until the next line is read
	file   string
	number int // in its file, from 1
}

// fault returns the error about a line that is not intact.
func (l line) fault(format string, args ...any) error {
	return fmt.Errorf("%s:%d: %s", l.file, l.number, fmt.Sprintf(format, args...))
}

// read calls do with each line, the oldest first, until do returns an error.
func read(ctx context.Context, path string, do func(line) error) error {
	// The current file first: a writer may rename it, and then goes on in another one.
	current, err := safefile.OpenOwn(path, os.O_RDONLY)
	older := logfile.Old(path)
	if err == nil {
		defer current.Close()
	} else if len(older) == 0 || !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, name := range older {
		f, err := safefile.OpenOwn(name, os.O_RDONLY)
		if errors.Is(err, fs.ErrNotExist) { // it was removed just now, as the oldest
			continue
		}
		if err != nil {
			return err
		}
		renamed := current != nil && isSame(f, current) // just now
		if !renamed {
			err = eachLine(ctx, f, name, do)
		}
		if f.Close(); err != nil {
			return err
		}
		if renamed {
			break
		}
	}
	if current == nil {
		return nil
	}
	return eachLine(ctx, current, path, do)
}

func isSame(a, b *os.File) bool {
	first, err := a.Stat()
	second, err2 := b.Stat()
	return err == nil && err2 == nil && os.SameFile(first, second)
}

// eachLine calls do with the lines that the file has now.
func eachLine(ctx context.Context, f *os.File, name string, do func(line) error) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	r := bufio.NewReaderSize(io.LimitReader(f, info.Size()), 2*maxLine)
	for number := 1; ctx.Err() == nil; number++ {
		text, err := r.ReadSlice('\n')
		at := line{bytes.TrimSuffix(text, []byte("\n")), name, number}
		switch {
		case errors.Is(err, io.EOF) && len(text) == 0:
			return nil
		case errors.Is(err, io.EOF):
			return at.fault("the line has no end: it was cut, or a process ended while it wrote; the next event that is written notes that")
		case errors.Is(err, bufio.ErrBufferFull):
			return at.fault("the line is longer than any event (%d bytes): it was edited, or is damaged", maxLine)
		case err != nil:
			return err
		}
		if err := do(at); err != nil {
			return err
		}
	}
	return context.Cause(ctx)
}

// A verifier checks lines one after the other.
type verifier struct {
	Report
	want  string // the hash to look for
	found bool
	at    chain // after the last line
}

// next checks a line.
func (v *verifier) next(l line) error {
	e, err := parse(l.text)
	if err != nil {
		return l.fault("this is no event: the line was edited, or is damaged")
	}
	if v.Events == 0 {
		if e.Seq > 1 && !e.Rotated {
			return l.fault("this is event %d, but the log begins with it: lines before it were removed", e.Seq)
		}
		v.at, v.Removed, v.First = chain{e.Seq - 1, e.Prev}, e.Seq-1, e.Time
		v.found = v.want != "" && e.Prev == v.want
	}
	switch expected := v.at.seq + 1; {
	case e.Seq != expected:
		return l.fault("this is event %d, but event %d belongs here: lines were removed, repeated, or put into another order", e.Seq, expected)
	case e.Prev != v.at.hash:
		return l.fault("it has the hash of another text than event %d before it has: one of the two was edited", e.Seq-1)
	case e.Action == Tampered:
		return l.fault("the router noted that another program had changed the log: %s", e.Reason)
	}
	v.at = chain{e.Seq, hashOf(l.text)}
	v.Events, v.Last, v.Hash = v.Events+1, e.Time, v.at.hash
	if v.found {
		v.After++
	}
	v.found = v.found || v.want != "" && v.Hash == v.want
	if e.Action == Gap && len(v.Gaps) < 100 {
		v.Gaps = append(v.Gaps, fmt.Sprintf("%s:%d: %s", l.file, l.number, e.Reason))
	}
	return nil
}

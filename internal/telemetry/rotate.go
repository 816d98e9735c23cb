package telemetry

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"github.com/mcp-metarouter/metarouter/config"
)

// A rotated file is appended to. When it has become too long it gets the number 1
// behind its name, older ones the next, and the oldest is removed. Other processes may
// do the same with the same file, and other programs may move it away. It belongs to one
// goroutine.
type rotated struct {
	options config.AccessLog
	file    *os.File // nil after a failure, until it can be opened again
}

// openRotated opens the file, and makes the folder that it is in.
func openRotated(o config.AccessLog) (*rotated, error) {
	if err := os.MkdirAll(filepath.Dir(o.File), 0o700); err != nil {
		return nil, err
	}
	r := &rotated{options: o}
	return r, r.open()
}

func (r *rotated) open() (err error) {
	if r.file, err = os.OpenFile(r.options.File, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600); err != nil {
		r.file = nil
	}
	return err
}

func (r *rotated) close() {
	if r.file != nil {
		r.file.Close()
		r.file = nil
	}
}

// write writes whole lines, with one call to the system, so that those of several
// processes do not mix.
func (r *rotated) write(lines []byte) error {
	size, err := r.size()
	if err != nil {
		return err
	}
	if size > 0 && size+int64(len(lines)) > r.options.MaxSize {
		r.shift()
		if err := r.open(); err != nil {
			return err
		}
	}
	_, err = r.file.Write(lines)
	return err
}

// size returns how long the file is, which is opened again if it is not the one of that
// name any more.
func (r *rotated) size() (int64, error) {
	if r.file != nil {
		ours, err := r.file.Stat()
		if err == nil && !ours.Mode().IsRegular() { // a pipe or a device
			return 0, nil
		}
		named, nameless := os.Stat(r.options.File)
		if err == nil && nameless == nil && os.SameFile(ours, named) {
			return ours.Size(), nil
		}
		r.close()
	}
	if err := r.open(); err != nil {
		return 0, err
	}
	info, err := r.file.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// shift makes room for another file, as far as that can be done: else this one goes on.
// On Windows a file that is open can't be renamed, so it is closed before.
func (r *rotated) shift() {
	r.close()
	last := r.options.MaxFiles - 1
	if last == 0 {
		os.Remove(r.options.File)
		return
	}
	for n := last; n > 0; n-- {
		if err := os.Rename(r.numbered(n-1), r.numbered(n)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return // the next would take its place
		}
	}
}

// numbered returns the name of the nth file, that of the one that is written to for 0.
func (r *rotated) numbered(n int) string {
	if n == 0 {
		return r.options.File
	}
	return r.options.File + "." + strconv.Itoa(n)
}

// Package safefile opens files at places where strangers may have put something else: a
// device, a FIFO, a link, a file without an end, a file that another user can change. It replaces files atomically, and
// locks them between processes.
package safefile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// ErrIrregular is wrapped by the error about a path that leads to a device, a FIFO or a
// socket, or, in [ReadOwn], [OpenOwn] and [Append], to a link.
var ErrIrregular = errors.New("it is not a regular file")

// An Exposed is the error that other users can change a file or folder.
type Exposed struct {
	Problem string // half a sentence, such as "other users can write to /x (mode 0777)"
	Fix     string // a command, such as "run 'chmod go-w /x'"
}

func (e *Exposed) Error() string { return e.Problem + "; " + e.Fix }

// Read returns the content of the regular file at path, which may be a link to one. A file
// that has more than limit bytes is an error, even if it claims to be smaller. Read never
// waits for a FIFO and never opens a device. Its errors are of type [*fs.PathError].
func Read(path string, limit int64) ([]byte, error) { return system.read(path, limit) }

// ReadIn is Read for a path below a folder that no link leads out of.
func ReadIn(folder *os.Root, path string, limit int64) ([]byte, error) {
	return files{folder.Stat, folder.OpenFile}.read(path, limit)
}

// files are those below a folder, or all of the system.
type files struct {
	stat func(path string) (fs.FileInfo, error)
	open func(path string, flag int, mode fs.FileMode) (*os.File, error)
}

var (
	system = files{os.Stat, os.OpenFile}
	// own are the files that this program makes: a link in place of one would choose another file.
	own = files{os.Lstat, func(path string, flag int, mode fs.FileMode) (*os.File, error) {
		return os.OpenFile(path, flag|nofollow, mode)
	}}
)

// ReadOwn is Read for a file that this program makes: it follows no link at the end of the path.
func ReadOwn(path string, limit int64) ([]byte, error) { return own.read(path, limit) }

func (s files) read(path string, limit int64) ([]byte, error) {
	f, err := s.openRegular(path, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var b bytes.Buffer
	if info, err := f.Stat(); err == nil { // a file of /proc claims to be empty
		b.Grow(int(min(info.Size(), limit)) + bytes.MinRead)
	}
	if _, err := b.ReadFrom(io.LimitReader(f, limit+1)); err != nil {
		return nil, err
	}
	if int64(b.Len()) > limit {
		return nil, &fs.PathError{Op: "read", Path: path, Err: fmt.Errorf("it is larger than %s", Size(limit))}
	}
	return b.Bytes(), nil
}

// Open opens the regular file at path for reading, as [Read] does.
func Open(path string) (*os.File, error) { return system.openRegular(path, os.O_RDONLY) }

// OpenOwn opens a regular file that this program makes, with the flags of [os.OpenFile], and mode 0600 if it is new.
// It follows no link at the end of the path.
func OpenOwn(path string, flag int) (*os.File, error) { return own.openRegular(path, flag) }

func (s files) openRegular(path string, flag int) (*os.File, error) {
	// A device may do something when it is opened, so look before.
	if info, err := s.stat(path); err == nil {
		if err := regular(path, info); err != nil {
			return nil, err
		}
	} // else opening fails too, or makes the file
	f, err := s.open(path, flag|nonblock, 0o600)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil {
		err = regular(path, info) // the path may lead elsewhere since it was examined
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// Append is OpenOwn with O_APPEND|O_CREATE|O_WRONLY and flag.
func Append(path string, flag int) (*os.File, error) {
	return OpenOwn(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY|flag)
}

// CanAppend returns why the path leads to no place for a file that [Append] may make, with its folders.
func CanAppend(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	}
	return regular(path, info)
}

func regular(path string, info fs.FileInfo) error {
	why := ErrIrregular
	switch mode := info.Mode(); {
	case mode.IsRegular():
		return nil
	case mode.IsDir():
		why = errors.New("it is a folder")
	case mode&fs.ModeSymlink != 0:
		why = fmt.Errorf("%w but a link, which is not followed", ErrIrregular)
	}
	return &fs.PathError{Op: "open", Path: path, Err: why}
}

// Size returns a number of bytes for people.
func Size(n int64) string {
	switch {
	case n >= 1<<20 && n%(1<<20) == 0:
		return fmt.Sprintf("%d MiB", n>>20)
	case n >= 1<<10 && n%(1<<10) == 0:
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%d bytes", n)
}

// Package logfile writes logs of bounded size, which several processes may write at once.
//
// A full file is renamed to its name and a number (calls.jsonl.1, calls.jsonl.2, …; the highest is the newest), and
// the oldest files are removed. A file is not kept open between two writes, so that other programs can move it. It is a
// regular file and no link: a link that was put there would choose another file.
package logfile

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/safefile"
)

// lockTime is how long another process may hold the lock.
const lockTime = 10 * time.Second

// A File is a log on disk.
type File struct {
	Path     string
	MaxSize  int64 // bytes, after which another file is begun
	MaxFiles int   // number of files that are kept, including the current one
	Sync     bool  // each write is on the disk when it returns
}

// Create creates the file, with mode 0600, and its folder, and fails if the file can't be written.
func (f File) Create() error {
	if err := os.MkdirAll(filepath.Dir(f.Path), 0o700); err != nil {
		return err
	}
	w, err := safefile.Append(f.Path, 0)
	if err != nil {
		return err
	}
	return w.Close()
}

// Lock keeps other processes from writing until unlock is called.
func (f File) Lock(ctx context.Context) (unlock func(), err error) {
	return safefile.Lock(ctx, f.Path+".lock", lockTime, "writes to the log")
}

// Append writes whole lines, all or none. A full file is renamed before.
func (f File) Append(ctx context.Context, lines []byte) error {
	unlock, err := f.Lock(ctx)
	if errors.Is(err, fs.ErrPermission) {
		return f.Write(lines) // in this folder nothing can be created or renamed
	}
	if err != nil {
		return err
	}
	defer unlock()
	shifted := false
	if info, err := os.Lstat(f.Path); err == nil && info.Mode().IsRegular() {
		shifted = f.Shift(info.Size())
	}
	if err = f.Write(lines); err == nil && shifted {
		f.RemoveOldest()
	}
	return err
}

// Write is Append for a caller that has the lock. It renames and removes no file.
func (f File) Write(lines []byte) error {
	w, err := safefile.Append(f.Path, 0)
	if err != nil {
		return err
	}
	defer w.Close()
	info, err := w.Stat()
	if err == nil {
		_, err = w.Write(lines)
	}
	if err == nil && f.Sync {
		err = w.Sync()
	}
	if err != nil && info != nil { // half a line could not be read
		return errors.Join(err, os.Truncate(f.Path, info.Size()))
	}
	return err
}

// Shift renames the file of this size if it is full, and reports whether it did. A file that can't be renamed, such as one that
// another program reads on Windows, goes on. The caller has the lock.
func (f File) Shift(size int64) bool { return size >= f.MaxSize && f.Rename() == nil }

// RemoveOldest removes the oldest files that are too many. Only a caller that has shifted the file removes some: numbered files
// may be another program's, which moves the file itself. The caller has the lock.
func (f File) RemoveOldest() {
	older := Old(f.Path)
	for _, name := range older[:max(0, len(older)+1-f.MaxFiles)] {
		os.Remove(name)
	}
}

// Rename renames the file. The caller has the lock.
func (f File) Rename() error {
	next := 1
	if older := Old(f.Path); len(older) > 0 {
		next += number(f.Path, older[len(older)-1])
	}
	return os.Rename(f.Path, f.Path+"."+strconv.Itoa(next))
}

// Old returns the renamed files of the log at path, the oldest first.
func Old(path string) (older []string) {
	entries, _ := os.ReadDir(filepath.Dir(path))
	for _, entry := range entries {
		if name := filepath.Join(filepath.Dir(path), entry.Name()); number(path, name) > 0 {
			older = append(older, name)
		}
	}
	slices.SortFunc(older, func(a, b string) int { return cmp.Compare(number(path, a), number(path, b)) })
	return older
}

// number returns the number of a renamed file, 0 for other names.
func number(path, renamed string) int {
	digits, _ := strings.CutPrefix(renamed, path+".")
	if n, err := strconv.Atoi(digits); err == nil && strconv.Itoa(n) == digits {
		return max(n, 0)
	}
	return 0
}

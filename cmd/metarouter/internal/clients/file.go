package clients

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/safefile"
)

// ErrChanged is returned by [File.Write] if the file was changed since it was read.
var ErrChanged = errors.New("it has changed since it was read; nothing was written, try again")

// A File is a file as it was read.
type File struct {
	Path   string // as it was named
	Exists bool
	Data   []byte // in UTF-8

	raw    []byte // as it is on disk, perhaps in UTF-16
	target string // the path after following links
	mode   fs.FileMode
}

// ID identifies the place of the servers of a source that has the file, by whatever links it was named. The path is absolute.
func (f File) ID(s Source) string {
	path := f.target
	for folder, real := path, ""; real == "" && folder != filepath.Dir(folder); folder = filepath.Dir(folder) {
		if real, _ = filepath.EvalSymlinks(folder); real != "" {
			path = real + strings.TrimPrefix(path, folder)
		}
	}
	return path + " " + strings.Join(s.keys, ".")
}

// maxFile is the most bytes of a client's file. Some clients keep their history in it.
const maxFile = 32 << 20

// Read reads a file, which need not be there.
func Read(path string) (File, error) {
	f := File{Path: path, target: path, mode: 0o600}
	target, err := filepath.EvalSymlinks(path)
	if errors.Is(err, fs.ErrNotExist) {
		if Exists(path) {
			return f, fmt.Errorf("%s is a link to a file that does not exist", path)
		}
		return f, nil
	}
	if err != nil {
		return f, fmt.Errorf("%s: %w", path, err)
	}
	info, err := os.Stat(target)
	if err != nil {
		return f, err
	}
	data, err := safefile.Read(target, maxFile)
	if err != nil {
		return f, err
	}
	return File{Path: path, Exists: true, Data: safefile.UTF8(data), raw: data, target: target, mode: info.Mode().Perm()}, nil
}

// unchanged returns [ErrChanged] if the file has changed since it was read.
func (f File) unchanged() error {
	again, err := Read(f.Path)
	if err == nil && (again.Exists != f.Exists || again.target != f.target || !bytes.Equal(again.raw, f.raw)) {
		err = fmt.Errorf("%s: %w", f.Path, ErrChanged)
	}
	return err
}

// Remove removes the file, with the errors of [File.Write].
func (f File) Remove() error {
	if err := f.unchanged(); err != nil {
		return err
	}
	return os.Remove(f.target)
}

// Write makes data the content of the file. The owner stays, and the mode loses the bits
// that keep does not have; a link stays a link. Write returns the path of the copy of the
// old content, or "" if the file did not exist. A file in UTF-16 stays in it. It returns [ErrChanged] if the file has
// changed since it was read. A change in the instant between that check and the rename is
// lost, since clients know no lock.
func (f File) Write(data []byte, keep fs.FileMode, now time.Time) (backup string, err error) {
	if err := f.unchanged(); err != nil {
		return "", err
	}
	data = safefile.Like(f.raw, data)
	if !f.Exists {
		if err := os.MkdirAll(filepath.Dir(f.target), 0o700); err != nil {
			return "", err
		}
		return "", safefile.WriteMode(f.target, data, f.mode&keep)
	}
	if f.mode&0o200 == 0 {
		return "", fmt.Errorf("%s is read-only; nothing was written", f.Path)
	}
	if backup, err = f.copy(now); err != nil {
		return "", err
	}
	if err := safefile.WriteMode(f.target, data, f.mode&keep); err != nil {
		return "", errors.Join(err, os.Remove(backup)) // of what is still there
	}
	old := f.Backups()
	for _, path := range old[:max(len(old)-maxBackups, 0)] {
		if path != backup { // the clock may have been set back
			_ = os.Remove(path) // the next edit tries again
		}
	}
	return backup, nil
}

const maxBackups = 5 // copies of a file that stay, the newest ones

// BackupMark is in the names of the copies of old content, after the file's name.
const BackupMark = ".metarouter-backup-"

const backupTime = "20060102T150405.000000Z"

// Backups returns the paths of the copies that [File.Write] made, the oldest first.
func (f File) Backups() (paths []string) {
	folder, name := filepath.Split(f.target)
	entries, _ := os.ReadDir(filepath.Clean(folder)) // by name; if they can't be read, no copy is removed
	for _, e := range entries {
		at, marked := strings.CutPrefix(e.Name(), name+BackupMark)
		if _, err := time.Parse(backupTime, at); err == nil && marked && e.Type().IsRegular() {
			paths = append(paths, filepath.Join(folder, e.Name()))
		}
	}
	return paths
}

// copy writes the old content to a new file in the same folder.
func (f File) copy(now time.Time) (string, error) {
	path := f.target + BackupMark + now.UTC().Format(backupTime)
	to, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, f.mode)
	if errors.Is(err, fs.ErrExist) {
		return f.copy(now.Add(time.Microsecond))
	}
	if err != nil {
		return "", fmt.Errorf("keep a copy: %w", err)
	}
	_, err = to.Write(f.raw)
	err = errors.Join(err, safefile.Own(to, f.target), to.Sync(), to.Close())
	if err != nil {
		return "", fmt.Errorf("keep a copy: %w", errors.Join(err, os.Remove(path)))
	}
	return path, nil
}

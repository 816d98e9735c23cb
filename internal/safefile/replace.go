package safefile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Write makes data the content of the file at path, with mode 0600. Readers see the old or the
// new content, never a part of it. With sync that also holds after a power failure.
func Write(path string, data []byte, sync bool) error {
	return write(path, data, sync, 0o600, false, "tmp-")
}

// temporary begins the names of the files that WriteMode renames, after the file's name.
const temporary = ".metarouter-tmp-"

// WriteMode does the same as Write with sync, with another mode. An existing file keeps its
// owner. A copy is removed that a process left which was killed in WriteMode.
func WriteMode(path string, data []byte, mode fs.FileMode) error {
	prefix := filepath.Base(path) + temporary
	entries, _ := os.ReadDir(filepath.Dir(path)) // without it, a copy stays until the next time
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), prefix) {
			_ = os.Remove(filepath.Join(filepath.Dir(path), e.Name()))
		}
	}
	return write(path, data, true, mode, true, prefix)
}

func write(path string, data []byte, sync bool, mode fs.FileMode, keepOwner bool, prefix string) error {
	temp, err := os.CreateTemp(filepath.Dir(path), prefix+"*") // has mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(temp.Name()) // fails once it is renamed
	_, err = temp.Write(data)
	if mode != 0o600 {
		err = errors.Join(err, temp.Chmod(mode))
	}
	if keepOwner {
		err = errors.Join(err, Own(temp, path))
	}
	if sync {
		err = errors.Join(err, temp.Sync())
	}
	if err := errors.Join(err, temp.Close()); err != nil {
		return err
	}
	return rename(temp.Name(), path)
}

// Create makes a file of mode 0600, and its folder if need be, unless there is one already. It never shows a part of the data.
func Create(path string, data []byte) error {
	folder := filepath.Dir(path)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return err
	}
	temp, err := os.CreateTemp(folder, "tmp-*") // has mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(temp.Name())
	_, err = temp.Write(data)
	if err := errors.Join(err, temp.Sync(), temp.Close()); err != nil {
		return err
	}
	// A link never replaces the file that another process has made meanwhile.
	if err := os.Link(temp.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

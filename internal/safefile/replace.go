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
	return put(path, data, "tmp-", rename, func(temp *os.File) error {
		if sync {
			return temp.Sync()
		}
		return nil
	})
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
	return put(path, data, prefix, rename, func(temp *os.File) error {
		return errors.Join(temp.Chmod(mode), Own(temp, path), temp.Sync())
	})
}

// Create makes a file of mode 0600, and its folder if need be, unless there is one already. It never shows a part of the data.
func Create(path string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	// A link never replaces the file that another process has made meanwhile.
	err := put(path, data, "tmp-", os.Link, (*os.File).Sync)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}

// put writes data to a temporary file of mode 0600 next to path, finishes that, and has move give it the path.
func put(path string, data []byte, prefix string, move func(from, to string) error, finish func(*os.File) error) error {
	temp, err := os.CreateTemp(filepath.Dir(path), prefix+"*")
	if err != nil {
		return err
	}
	defer os.Remove(temp.Name()) // fails once it is renamed
	_, err = temp.Write(data)
	if err := errors.Join(err, finish(temp), temp.Close()); err != nil {
		return err
	}
	return move(temp.Name(), path)
}

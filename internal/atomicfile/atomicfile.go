// Package atomicfile replaces files at once or not at all.
package atomicfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// Write makes data the content of the file at path, which its owner alone can
// then read. Who reads it meanwhile sees what was or what is to be. With sync
// that also holds after a power cut.
func Write(path string, data []byte, sync bool) error { return write(path, data, sync, 0o600, false) }

// WriteMode is Write with sync, of a file that others may read as mode says. One that is
// there keeps its owner.
func WriteMode(path string, data []byte, mode fs.FileMode) error {
	return write(path, data, true, mode, true)
}

func write(path string, data []byte, sync bool, mode fs.FileMode, keepOwner bool) (err error) {
	temp, err := os.CreateTemp(filepath.Dir(path), "tmp-*") // has mode 0600
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(temp.Name()))
		}
	}()
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
	return os.Rename(temp.Name(), path)
}

//go:build unix

package atomicfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// Own gives f the owner of the file at path, if that is there and another's. Root may;
// who may not gets an error, rather than a file that its owner can't read.
func Own(f *os.File, path string) error {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	its, ok := info.Sys().(*syscall.Stat_t)
	if !ok || int(its.Uid) == os.Geteuid() {
		return nil
	}
	if err := f.Chown(int(its.Uid), int(its.Gid)); err != nil {
		return fmt.Errorf("%s is another user's: %w", path, err)
	}
	return nil
}

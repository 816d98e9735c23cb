//go:build unix

package safefile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

var rename = os.Rename

// Own gives f the owner of the file at path, if that exists and belongs to another user. Only
// root may do that; other users get an error, rather than a file that its owner cannot read.
func Own(f *os.File, path string) error {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok || int(stat.Uid) == os.Geteuid() {
		return nil
	}
	if err := f.Chown(int(stat.Uid), int(stat.Gid)); err != nil {
		return fmt.Errorf("%s belongs to another user: %w", path, err)
	}
	return nil
}

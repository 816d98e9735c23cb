//go:build unix

package safefile

import (
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"
)

const (
	nonblock = syscall.O_NONBLOCK | syscall.O_NOCTTY
	nofollow = syscall.O_NOFOLLOW
)

// Unshared returns an error if other users can read the file.
func Unshared(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		return fmt.Errorf("other users can read %s (mode %04o); run: chmod 600 %[1]s", path, mode)
	}
	return nil
}

// OwnersOnly returns an [*Exposed] if users other than this process's and root
// can write to the file or folder at path, or may do so as its owner. It follows links. A
// path that does not exist is an error that is [fs.ErrNotExist].
func OwnersOnly(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return nil
	}
	return owned(path, info.Mode(), int(stat.Uid), os.Geteuid())
}

// owned judges a file by its mode and its owner. us is the user of this process.
func owned(path string, mode fs.FileMode, owner, us int) error {
	if owner != us && owner != 0 {
		return &Exposed{
			fmt.Sprintf("%s belongs to user %d, not to you (user %d)", path, owner, us),
			fmt.Sprintf("run metarouter as that user, or run: chown %d %s", us, quoted(path)),
		}
	}
	if mode.Perm()&0o022 != 0 {
		return &Exposed{
			fmt.Sprintf("other users can write to %s (mode %04o)", path, mode.Perm()),
			fmt.Sprintf("run: chmod go-w %s", quoted(path)),
		}
	}
	return nil
}

// quoted returns a path as one word of a shell.
func quoted(path string) string { return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'" }

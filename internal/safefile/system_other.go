//go:build !unix

package safefile

import "os"

// On these systems the look before opening has to do.
const (
	nonblock = 0
	nofollow = 0
)

// Unshared reports only whether the path exists: the folder decides who can read it.
func Unshared(path string) error { return OwnersOnly(path) }

// OwnersOnly reports only whether the path exists: Unix alone has modes.
func OwnersOnly(path string) error {
	_, err := os.Stat(path)
	return err
}

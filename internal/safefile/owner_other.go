//go:build !unix

package safefile

import "os"

// OwnersOnly reports only whether the path exists: Unix alone has modes.
func OwnersOnly(path string) error {
	_, err := os.Stat(path)
	return err
}

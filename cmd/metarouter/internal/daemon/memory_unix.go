//go:build unix && !linux

package daemon

import "os"

func memoryFile() (*os.File, error) {
	f, err := os.CreateTemp("", "metarouter-*")
	if err != nil {
		return nil, err
	}
	os.Remove(f.Name())
	return f, nil
}

// Only Linux has seals.
func seal(*os.File) error    { return nil }
func isSealed(*os.File) bool { return true }

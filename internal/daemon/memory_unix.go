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

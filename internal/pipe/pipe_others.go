//go:build !linux

package pipe

import "os"

// enlarge returns false: only Linux can change the size of a pipe.
func enlarge(*os.File) bool { return false }

// polled returns nil: this system cannot open a pipe again.
func polled(*os.File) *os.File { return nil }

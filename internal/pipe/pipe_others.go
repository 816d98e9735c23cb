//go:build !linux

package pipe

import "os"

// enlarge does nothing: only Linux has pipes of any size.
func enlarge(*os.File) bool { return false }

// polled returns nil: there is no way to open a pipe anew.
func polled(*os.File) *os.File { return nil }

//go:build !windows

package console

import "os"

// canDraw reports whether the terminal understands more than lines.
func canDraw(_ *os.File, getenv func(string) string) bool {
	return getenv("TERM") != "dumb" && getenv("TERM") != ""
}

//go:build !unix

package safefile

// On these systems the look before opening has to do.
const (
	nonblock = 0
	nofollow = 0
)

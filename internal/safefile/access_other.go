//go:build !unix

package safefile

// writable does not know the rights on these systems.
func writable(string) error { return nil }

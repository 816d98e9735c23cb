//go:build unix

package script

import "golang.org/x/sys/unix"

// reserve reserves addresses without memory.
func reserve(size int) ([]byte, error) {
	return unix.Mmap(-1, 0, size, unix.PROT_NONE, unix.MAP_ANON|unix.MAP_PRIVATE)
}

// commit makes reserved bytes usable.
func commit(b []byte, from, to int) error {
	return unix.Mprotect(b[from:to], unix.PROT_READ|unix.PROT_WRITE)
}

func release(b []byte) { _ = unix.Munmap(b) }

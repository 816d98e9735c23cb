//go:build unix

package safefile

import "syscall"

const (
	nonblock = syscall.O_NONBLOCK | syscall.O_NOCTTY
	nofollow = syscall.O_NOFOLLOW
)

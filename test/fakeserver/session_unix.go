//go:build unix

package fakeserver

import "syscall"

// ownSession makes a child the leader of its own session.
func ownSession() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

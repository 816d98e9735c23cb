//go:build !linux

package early

import "errors"

// A Waiter is what a process needs in order to wait; only Linux has it.
type Waiter struct {
	Conn                             int
	Debug                            bool
	Lock, Socket, Leave, Reload, Bye string
	Files                            []int
}

// A Resumption is what a waiter leaves.
type Resumption struct {
	Files []int
	Lost  bool
	Text  string
}

// Wait fails.
func Wait(Waiter, []string, func() bool) error { return errors.ErrUnsupported }

func wait() {}

// Resumed returns false.
func Resumed() (Resumption, bool) { return Resumption{}, false }

//go:build !unix

package program

import "os/exec"

// Detach does nothing on this system.
func Detach(*exec.Cmd) {}

package natsserver

import "syscall"

// attributes ends the server with the test even if that is killed.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }

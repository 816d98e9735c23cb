//go:build !linux

package natsserver

import "syscall"

func attributes() *syscall.SysProcAttr { return nil }

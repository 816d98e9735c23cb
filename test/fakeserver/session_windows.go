package fakeserver

import (
	"syscall"

	"golang.org/x/sys/windows"
)

// ownSession makes a child independent of the parent's console and process group.
func ownSession() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{CreationFlags: windows.CREATE_NEW_PROCESS_GROUP | windows.DETACHED_PROCESS}
}

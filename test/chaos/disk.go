//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// diskSize is the size of the data folder's disk: enough for the router, but soon full.
const diskSize = 32 << 20

// namespaceVariable is set in the environment of a run in its own mount namespace.
const namespaceVariable = "METAROUTER_CHAOS_MOUNTS"

// enterNamespace executes this program again in its own mount namespace, in which it may mount a
// disk. Other processes do not see the disk, and it disappears with the last process of the run.
// It returns if the program is in such a namespace already, or if the system does not permit it:
// then the run has no fault that fills the disk.
func enterNamespace() {
	self, err := os.Executable()
	if err != nil || os.Getenv(namespaceVariable) != "" {
		return
	}
	runtime.LockOSThread() // only this thread enters the namespace; Exec makes it the process
	defer runtime.UnlockOSThread()
	if unix.Unshare(unix.CLONE_NEWNS) != nil || unix.Mount("none", "/", "", unix.MS_REC|unix.MS_PRIVATE, "") != nil {
		return
	}
	if err := syscall.Exec(self, os.Args, append(os.Environ(), namespaceVariable+"=1")); err != nil {
		fmt.Fprintln(os.Stderr, "chaos: start again in a namespace:", err)
	}
}

// mountDisk mounts a small disk at dir and reports whether it did. Outside of its own namespace it
// does not try.
func mountDisk(dir string) bool {
	return os.Getenv(namespaceVariable) != "" &&
		unix.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d,mode=0700", diskSize)) == nil
}

func unmountDisk(dir string) { unix.Unmount(dir, 0) }

// fill writes a file until the disk is full.
func fill(path string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	for _, size := range []int{1 << 20, 1} { // then the last bytes
		for written := 0; written <= 2*diskSize; written += size {
			if _, err = f.Write(make([]byte, size)); err != nil {
				break
			}
		}
	}
	if !errors.Is(err, syscall.ENOSPC) {
		return fmt.Errorf("the disk was not full in the end: %w", err)
	}
	return nil
}

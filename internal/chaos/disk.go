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

// diskSize is that of the data folder's disk: enough for the router, and soon full.
const diskSize = 32 << 20

// namespaceVariable is set in the environment of a run that has a mount namespace
// of its own.
const namespaceVariable = "METAROUTER_CHAOS_MOUNTS"

// enterNamespace starts this program anew where it may mount a disk that nobody
// else sees, and that is gone when the last process of the run is. It returns if
// it is there already, or if that is not permitted: then no disk gets full.
func enterNamespace() {
	self, err := os.Executable()
	if err != nil || os.Getenv(namespaceVariable) != "" {
		return
	}
	runtime.LockOSThread() // which alone moves, and becomes the whole process
	defer runtime.UnlockOSThread()
	if unix.Unshare(unix.CLONE_NEWNS) != nil || unix.Mount("none", "/", "", unix.MS_REC|unix.MS_PRIVATE, "") != nil {
		return
	}
	if err := syscall.Exec(self, os.Args, append(os.Environ(), namespaceVariable+"=1")); err != nil {
		fmt.Fprintln(os.Stderr, "chaos: start anew in a namespace:", err)
	}
}

// mountDisk mounts a small disk at dir, and reports whether it may. Without a
// namespace of our own it does not try.
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
	for _, size := range []int{1 << 20, 1} { // the last bytes too
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

package process

import (
	"bytes"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// A leader is the first process of a group, held by a descriptor: a later process
// with its id is not taken for it.
type leader struct{ fd int }

func lead(pid int) leader {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		fd = -1
	}
	return leader{fd}
}

// alive reports whether the process still exists, if only as a zombie: as long
// as it does, its id belongs to its group.
func (l leader) alive() bool {
	return l.fd > 0 && unix.PidfdSendSignal(l.fd, 0, nil, 0) == nil
}

func (l leader) close() {
	if l.fd > 0 {
		unix.Close(l.fd)
	}
}

// killOnce kills the processes whose environment holds needle.
func killOnce(needle []byte) (killed int) {
	proc, err := os.Open("/proc")
	if err != nil {
		return 0
	}
	defer proc.Close()
	names, _ := proc.Readdirnames(-1)
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil || pid == os.Getpid() {
			continue
		}
		fd, err := unix.PidfdOpen(pid, 0) // held while we look, so that it is the one we kill
		if err != nil {
			continue
		}
		env, err := os.ReadFile("/proc/" + name + "/environ")
		if err == nil && bytes.Contains(append([]byte{0}, env...), needle) && unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0) == nil {
			killed++
		}
		unix.Close(fd)
	}
	return killed
}

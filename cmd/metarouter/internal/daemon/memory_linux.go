package daemon

import (
	"os"

	"golang.org/x/sys/unix"
)

func memoryFile() (*os.File, error) {
	fd, err := unix.MemfdCreate("metarouter", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), "memory"), nil
}

// seal keeps the file from getting shorter: who has it mapped would be killed when
// touching what is gone.
func seal(f *os.File) error {
	_, err := unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK)
	return err
}

func isSealed(f *os.File) bool {
	seals, err := unix.FcntlInt(f.Fd(), unix.F_GET_SEALS, 0)
	return err == nil && seals&unix.F_SEAL_SHRINK != 0
}

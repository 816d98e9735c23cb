package daemon

import "golang.org/x/sys/unix"

// socketUser returns the effective user at the other end of a local socket.
func socketUser(fd int) (int, error) {
	peer, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		return 0, err
	}
	return int(peer.Uid), nil
}

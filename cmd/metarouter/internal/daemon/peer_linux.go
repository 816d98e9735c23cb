package daemon

import (
	"net"

	"golang.org/x/sys/unix"
)

// peerUser returns the effective user of the process that connected, or that listens: of the
// time when it began to.
func peerUser(c *net.UnixConn) (user int, known bool, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, false, err
	}
	var peer *unix.Ucred
	controlled := raw.Control(func(fd uintptr) { peer, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })
	if controlled != nil {
		return 0, false, controlled
	}
	if err != nil {
		return 0, false, err
	}
	return int(peer.Uid), true, nil
}

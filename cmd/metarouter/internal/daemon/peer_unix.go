//go:build linux || darwin

package daemon

import "net"

// peerUser returns the effective user of the process that connected, or that listens: of the
// time when it began to.
func peerUser(c *net.UnixConn) (user int, known bool, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, false, err
	}
	if controlled := raw.Control(func(fd uintptr) { user, err = socketUser(int(fd)) }); controlled != nil {
		err = controlled
	}
	return user, err == nil, err
}

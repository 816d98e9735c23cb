package daemon

import (
	"fmt"
	"net"
)

// checkPeer fails if the process at the other end of a local socket is not the user's, as far
// as the system tells. The mode of the socket's folder keeps others out before that.
func checkPeer(c net.Conn, user int) error {
	local, ok := c.(*net.UnixConn)
	if !ok {
		return fmt.Errorf("%s is no local socket", c.RemoteAddr())
	}
	peer, known, err := peerUser(local)
	if err != nil {
		return fmt.Errorf("find out whose process is at the other end: %w", err)
	}
	if known && peer != user {
		return fmt.Errorf("the process at the other end belongs to user %d, not to %d", peer, user)
	}
	return nil
}

// An ownListener closes the connections of other users' processes.
type ownListener struct {
	net.Listener
	user int
}

// Accept implements [net.Listener].
func (l ownListener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil || checkPeer(c, l.user) == nil {
			return c, err
		}
		c.Close()
	}
}

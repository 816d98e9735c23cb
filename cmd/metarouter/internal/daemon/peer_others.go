//go:build !linux && !darwin

package daemon

import "net"

// peerUser does not know the user: only the modes of files keep others out here.
func peerUser(*net.UnixConn) (user int, known bool, err error) { return 0, false, nil }

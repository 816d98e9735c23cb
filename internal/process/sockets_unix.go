//go:build unix

package process

import (
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"

	"github.com/mcp-metarouter/metarouter/internal/keeper"
)

// socketPair returns two connected sockets: one for this process, one for another.
func socketPair() (ours *net.UnixConn, theirs *os.File, err error) {
	syscall.ForkLock.RLock()
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err == nil {
		syscall.CloseOnExec(fds[0])
		syscall.CloseOnExec(fds[1])
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return nil, nil, fmt.Errorf("open a socket: %w", err)
	}
	theirs = os.NewFile(uintptr(fds[1]), "socket")
	if ours, err = unixConn(fds[0]); err != nil {
		theirs.Close()
		return nil, nil, err
	}
	return ours, theirs, nil
}

// unixConn returns the socket of the descriptor, which it closes.
func unixConn(fd int) (*net.UnixConn, error) {
	f := os.NewFile(uintptr(fd), "socket")
	defer f.Close()
	conn, err := net.FileConn(f)
	if err != nil {
		return nil, err
	}
	local, ok := conn.(*net.UnixConn)
	if !ok {
		conn.Close()
		return nil, errors.New("no local socket")
	}
	return local, nil
}

// order returns the launch as the guard process gets it.
func (l launch) order() keeper.Start {
	cmd := l.command()
	dir := l.Dir
	if dir == "" {
		dir, _ = os.Getwd() // the guard process is elsewhere
	}
	return keeper.Start{Path: l.Path, Args: cmd.Args, Env: cmd.Environ(), Dir: dir, Number: l.number, KeepStrays: l.KeepStrays, Container: l.Container}
}

//go:build unix

package process

import (
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
	file := os.NewFile(uintptr(fds[0]), "socket")
	defer file.Close()
	conn, err := net.FileConn(file)
	if err != nil {
		theirs.Close()
		return nil, nil, err
	}
	return conn.(*net.UnixConn), theirs, nil
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

//go:build unix

package process

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
)

// An order is what the router sends to the guard process. Each has one member.
type order struct {
	Mark    string      `json:",omitempty"` // the router's; comes first, with Folder
	Folder  string      `json:",omitempty"` // to be removed at the end
	Start   *startOrder `json:",omitempty"` // comes with stdin, stdout, stderr and the link
	Watch   int         `json:",omitempty"` // a process group to be killed at the end
	Unwatch int         `json:",omitempty"`
	Done    bool        `json:",omitempty"` // the router has stopped all servers
}

// A startOrder is a server to be started.
type startOrder struct {
	Path       string
	Args       []string // with the program's name
	Env        []string
	Dir        string
	Number     int64 // of the process, as in its mark
	KeepStrays bool
}

// A report is what the guard process sends over a server's link: first PID or Errno,
// then Exited when the process is reaped and its group is dead, then Gone when all that
// it has left is dead.
type report struct {
	PID    int                 `json:",omitempty"`
	Errno  int                 `json:",omitempty"`
	Exited *syscall.WaitStatus `json:",omitempty"`
	Gone   bool                `json:",omitempty"`
}

// Bytes that the router sends over a server's link: the signal for its process group.
const (
	linkTerm = 'T'
	linkKill = 'K'
)

// maxOrder bounds an order, in bytes: Linux passes at most 6 MiB to a program.
const maxOrder = 32 << 20

// sendOrder writes the order's length, which carries the files, and then the order.
func sendOrder(conn *net.UnixConn, o order, files []*os.File) error {
	body, err := json.Marshal(o)
	if err != nil {
		return err
	}
	var fds []int
	for _, f := range files {
		fds = append(fds, int(f.Fd())) // a server's files are to block
	}
	if _, _, err := conn.WriteMsgUnix(binary.BigEndian.AppendUint32(nil, uint32(len(body))), syscall.UnixRights(fds...), nil); err != nil {
		return err
	}
	_, err = conn.Write(body)
	return err
}

// readOrder reads an order. Its caller closes the files.
func readOrder(conn *net.UnixConn) (o order, files []int, err error) {
	length, control := make([]byte, 4), make([]byte, syscall.CmsgSpace(4*4))
	n, m, _, _, err := conn.ReadMsgUnix(length, control)
	if err != nil {
		return o, nil, err
	}
	messages, err := syscall.ParseSocketControlMessage(control[:m])
	if err != nil {
		return o, nil, err
	}
	for _, message := range messages {
		fds, err := syscall.ParseUnixRights(&message)
		if err != nil {
			return o, nil, err
		}
		for _, fd := range fds {
			syscall.CloseOnExec(fd)
		}
		files = append(files, fds...)
	}
	if _, err := io.ReadFull(conn, length[n:]); err != nil {
		return o, files, err
	}
	size := binary.BigEndian.Uint32(length)
	if size > maxOrder {
		return o, files, errors.New("the order is too long")
	}
	body := make([]byte, size)
	if _, err := io.ReadFull(conn, body); err != nil {
		return o, files, err
	}
	return o, files, json.Unmarshal(body, &o)
}

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
func (l launch) order() startOrder {
	cmd := l.command()
	dir := l.Dir
	if dir == "" {
		dir, _ = os.Getwd() // the guard process is elsewhere
	}
	return startOrder{Path: l.Path, Args: cmd.Args, Env: cmd.Environ(), Dir: dir, Number: l.number, KeepStrays: l.KeepStrays}
}

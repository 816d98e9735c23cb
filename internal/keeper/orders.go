//go:build unix

package keeper

import (
	"bytes"
	"encoding/gob"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
)

// An Order goes from the router to the guard process, in gob, which keeps texts that are no UTF-8. Each has
// one of Mark, Start, Watch, Unwatch and Done.
type Order struct {
	Mark    string     // the router's; the first order has it
	Remove  []string   // files and empty folders to be removed at the end, in this order; comes with Mark
	Start   *Start     // comes with stdin, stdout, stderr and the link as files
	Watch   int        // a process group to be killed at the end
	Stop    *Container // of Watch; may be nil
	Unwatch int
	Done    bool // the router has stopped all servers
}

// A Start is a server to be started.
type Start struct {
	Path       string
	Args       []string // with the program's name
	Env        []string
	Dir        string
	Number     int64 // of the process, as in its mark
	KeepStrays bool
	Container  *Container // if the server's process is the client of one; else nil
}

// A Report comes from the guard process over a server's link: first Started or NotStarted,
// then Exited when the process is reaped and its group is dead, then Gone when all its
// descendants are dead.
type Report struct {
	Kind  string
	Value int // the process id, the errno, the [syscall.WaitStatus], or 0
}

// The kinds of reports.
const (
	Started    = "pid"
	NotStarted = "errno"
	Exited     = "exited"
	Gone       = "gone"
)

// Bytes that the router sends over a server's link: the signal for its process group.
const (
	LinkTerm = 'T'
	LinkKill = 'K'
)

// maxOrder bounds an order, in bytes: Linux passes at most 6 MiB to a program.
const maxOrder = 32 << 20

// Send sends an order with files to the guard process.
func Send(guard *net.UnixConn, o Order, files ...*os.File) error {
	var order bytes.Buffer
	if err := gob.NewEncoder(&order).Encode(o); err != nil {
		return err
	}
	if order.Len() > maxOrder {
		return syscall.E2BIG
	}
	var fds []int
	for _, f := range files {
		fds = append(fds, int(f.Fd())) // a server's files are to block
	}
	n, _, err := guard.WriteMsgUnix(order.Bytes(), syscall.UnixRights(fds...), nil)
	if err == nil {
		_, err = guard.Write(order.Bytes()[n:])
	}
	return err
}

// An orderReader reads an order and its files. It reads byte by byte where the decoder asks for that, so
// that nothing of the next order is read.
type orderReader struct {
	router *net.UnixConn
	left   int   // bytes that the order may still have
	files  []int // so far
}

// readOrder reads an order. Its caller closes the files. An error says that the router has ended.
func readOrder(router *net.UnixConn) (o Order, files []int, err error) {
	r := &orderReader{router: router, left: maxOrder}
	err = gob.NewDecoder(r).Decode(&o)
	return o, r.files, err
}

func (r *orderReader) Read(p []byte) (int, error) {
	control := make([]byte, syscall.CmsgSpace(4*4))
	n, m, _, _, err := r.router.ReadMsgUnix(p, control)
	if r.left -= n; r.left < 0 {
		return 0, errors.New("the router's order is too long")
	}
	messages, _ := syscall.ParseSocketControlMessage(control[:m])
	for _, message := range messages {
		fds, _ := syscall.ParseUnixRights(&message)
		r.files = append(r.files, fds...)
	}
	return n, err
}

func (r *orderReader) ReadByte() (byte, error) {
	var b [1]byte
	_, err := io.ReadFull(r, b[:])
	return b[0], err
}

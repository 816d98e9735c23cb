//go:build unix

package keeper

import (
	"bytes"
	"errors"
	"io"
	"os"
	"slices"
	"strconv"
	"syscall"
)

// An Order goes from the router to the guard process. Each has one of Mark, Start,
// Watch, Unwatch and Done.
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

const (
	// maxOrder bounds an order, in bytes: Linux passes at most 6 MiB to a program.
	maxOrder = 32 << 20
	// LengthSize is the size of an order's length, which comes before it, most significant
	// byte first.
	LengthSize = 4
)

// The words that orders begin with. Their parts have a zero byte between them,
// which no path, argument or variable can have.
const wordMark, wordStart, wordWatch, wordUnwatch, wordDone = "mark", "start", "watch", "unwatch", "done"

var errGarbled = errors.New("the other end of the guard's socket sends something else than it should")

// Encode returns the bytes of an order, with their length in front. It fails with EINVAL
// if a part has a zero byte, as the system does.
func (o Order) Encode() ([]byte, error) {
	var parts []string
	switch s := o.Start; {
	case s != nil:
		parts = append(parts, wordStart, strconv.FormatInt(s.Number, 10), strconv.FormatBool(s.KeepStrays), s.Path, s.Dir)
		parts = slices.Concat(parts, counted(s.Args), s.Container.parts(), s.Env)
	case o.Mark != "":
		parts = append([]string{wordMark, o.Mark}, o.Remove...)
	case o.Watch != 0:
		parts = append([]string{wordWatch, strconv.Itoa(o.Watch)}, o.Stop.parts()...)
	case o.Unwatch != 0:
		parts = []string{wordUnwatch, strconv.Itoa(o.Unwatch)}
	default:
		parts = []string{wordDone}
	}
	size := len(parts) - 1
	for _, part := range parts {
		if size += len(part); slices.Contains([]byte(part), 0) {
			return nil, syscall.EINVAL
		}
	}
	if size > maxOrder {
		return nil, syscall.E2BIG
	}
	order := append(make([]byte, 0, LengthSize+size), byte(size>>24), byte(size>>16), byte(size>>8), byte(size))
	for i, part := range parts {
		if i > 0 {
			order = append(order, 0)
		}
		order = append(order, part...)
	}
	return order, nil
}

// counted returns a list with its length before it.
func counted(list []string) []string { return append([]string{strconv.Itoa(len(list))}, list...) }

// parts returns the parts of an order that are about a container: a count of 0 or 1, and the
// fields of the container.
func (c *Container) parts() []string {
	if c == nil {
		return []string{"0"}
	}
	parts := slices.Concat([]string{"1", c.File, c.Path, c.Dir}, counted(c.Remove), counted(c.Env), []string{strconv.Itoa(len(c.Commands))})
	for _, args := range c.Commands {
		parts = append(parts, counted(args)...)
	}
	return parts
}

// A reader takes the parts of an order.
type reader struct {
	parts []string
	err   error // of the first part that is not as it should be
}

// take returns the next n parts, with empty ones if there are fewer.
func (r *reader) take(n int) []string {
	if n < 0 || n > len(r.parts) {
		r.err = errGarbled
		return make([]string, max(0, min(n, 1)))
	}
	taken := r.parts[:n:n]
	r.parts = r.parts[n:]
	return taken
}

func (r *reader) text() string { return r.take(1)[0] }

func (r *reader) number() int64 {
	n, err := strconv.ParseInt(r.text(), 10, 64)
	if err != nil {
		r.err = errGarbled
	}
	return n
}

func (r *reader) list() []string { return r.take(int(r.number())) }

func (r *reader) container() *Container {
	if r.number() == 0 {
		return nil
	}
	c := &Container{File: r.text(), Path: r.text(), Dir: r.text(), Remove: r.list(), Env: r.list()}
	for n := r.number(); n > 0 && r.err == nil; n-- {
		c.Commands = append(c.Commands, r.list())
	}
	return c
}

// parseOrder is the opposite of Encode, without the length.
func parseOrder(body []byte) (o Order, err error) {
	r := new(reader)
	for part := range bytes.SplitSeq(body, []byte{0}) {
		r.parts = append(r.parts, string(part))
	}
	switch r.text() {
	case wordStart:
		s := &Start{Number: r.number(), KeepStrays: r.text() == "true", Path: r.text(), Dir: r.text(), Args: r.list(), Container: r.container()}
		s.Env = r.parts
		o.Start = s
	case wordMark:
		o.Mark = r.text()
		o.Remove = r.parts
	case wordWatch:
		o.Watch, o.Stop = int(r.number()), r.container()
	case wordUnwatch:
		o.Unwatch = int(r.number())
	case wordDone:
		o.Done = true
	default:
		r.err = errGarbled
	}
	if r.err == nil && o.Start == nil && o.Mark == "" && o.Watch == 0 && o.Unwatch == 0 && !o.Done {
		return o, errGarbled
	}
	return o, r.err
}

// line returns the report as a line.
func (r Report) line() []byte { return []byte(r.Kind + " " + strconv.Itoa(r.Value) + "\n") }

// ParseReport returns the report of a line, which ends with "\n".
func ParseReport(line []byte) (r Report, err error) {
	kind, digits, _ := bytes.Cut(bytes.TrimSuffix(line, []byte("\n")), []byte(" "))
	r.Kind = string(kind)
	if r.Value, err = strconv.Atoi(string(digits)); err != nil || !slices.Contains([]string{Started, NotStarted, Exited, Gone}, r.Kind) {
		return r, errGarbled
	}
	return r, nil
}

// A socket is the guard's end of the router's socket. It waits in system calls, since
// it has nothing else to do.
type socket int

// readOrder reads an order. Its caller closes the files. io.EOF and other errors say that
// the router has ended.
func (s socket) readOrder() (o Order, files []int, err error) {
	length, control := make([]byte, LengthSize), make([]byte, syscall.CmsgSpace(4*4))
	n, m, err := s.receive(length, control)
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
	if err := s.readFull(length[n:]); err != nil {
		return o, files, err
	}
	size := int(length[0])<<24 | int(length[1])<<16 | int(length[2])<<8 | int(length[3])
	if size < 0 || size > maxOrder {
		return o, files, errGarbled
	}
	body := make([]byte, size)
	if err := s.readFull(body); err != nil {
		return o, files, err
	}
	o, err = parseOrder(body)
	return o, files, err
}

// receive reads the beginning of an order with its files.
func (s socket) receive(p, control []byte) (n, m int, err error) {
	for {
		n, m, _, _, err = syscall.Recvmsg(int(s), p, control, 0)
		switch {
		case err == syscall.EINTR:
		case err == nil && n == 0:
			return 0, 0, io.EOF
		default:
			return n, m, err
		}
	}
}

func (s socket) readFull(p []byte) error {
	for len(p) > 0 {
		n, err := syscall.Read(int(s), p)
		switch {
		case err == syscall.EINTR:
		case err != nil:
			return err
		case n == 0:
			return io.ErrUnexpectedEOF
		default:
			p = p[n:]
		}
	}
	return nil
}

// linkOf returns the guard's end of a server's link; to wait for it takes no thread. It takes
// the descriptor over.
func linkOf(fd int) (*os.File, error) {
	if err := syscall.SetNonblock(fd, true); err != nil {
		syscall.Close(fd)
		return nil, err
	}
	return os.NewFile(uintptr(fd), "link"), nil
}

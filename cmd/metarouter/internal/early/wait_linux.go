package early

import (
	"bytes"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"syscall"
	"time"
	"unsafe"
)

// A process that has handed its streams to the shared router only waits. To do so in little
// memory it executes its program again, as a waiter, which is this package's initialisation
// and nothing else. When there is work, the waiter executes the program a third time, which
// goes on where the first one was. The process id, the files and the command line stay.
//
// The program is executed by way of /proc/self/exe: an update may have replaced the file by
// another program, which does not know the journal.
//
// Before [Wait] executes, it blocks SIGHUP, SIGINT and SIGTERM, so that none is lost; only one
// that another thread has accepted in the last microseconds is. Go's runtime unblocks them when
// the waiter begins: one that arrives before the waiter catches them, some milliseconds later,
// ends the process, and with it the session. Before the waiter executes, it ignores
// SIGHUP: the configuration is read again in any case. SIGINT and SIGTERM end the process
// then, whose router is dead already.
const (
	// waitVariable and resumeVariable hold the state of a waiter, and of the program after
	// it, with line feeds between the parts. No child inherits them.
	waitVariable   = "METAROUTER_WAIT"
	resumeVariable = "METAROUTER_RESUME"

	// sameSignal is that of package main: the time within which two signals are one.
	sameSignal = 200 * time.Millisecond

	// maxBye bounds what the router says at the end, in bytes.
	maxBye = 16 << 10
)

// A Waiter is what a process needs in order to wait.
type Waiter struct {
	Conn   int    // connection to the shared router, a descriptor
	Debug  bool   // other processes may look into this one
	Lock   string // a file that the last process of the place removes
	Socket string // of the shared router
	Files  []int  // further descriptors, kept for the program after the waiter
	Leave  string // what tells the router that the client leaves
	Reload string // what tells it to read the configuration
	Bye    string // what its last line begins with
}

// A Resumption is what a waiter leaves.
type Resumption struct {
	Files []int  // as in Waiter
	Lost  bool   // the router ended without a bye, and the client is still there
	Text  string // else the error in the router's bye; "" for none
}

// signals are those that a waiter acts on.
var signals = []os.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGTERM}

// Wait executes the program again as a waiter. It returns only if that fails. env is the
// environment of the program after the waiter.
func Wait(w Waiter, env []string, stay func() bool) error {
	parts := []string{strconv.FormatBool(w.Debug), w.Lock, w.Socket, w.Leave, w.Reload, w.Bye}
	var kept []int
	defer func() {
		for _, fd := range kept {
			syscall.Close(fd)
		}
	}()
	for _, fd := range append([]int{w.Conn}, w.Files...) {
		copied, err := syscall.Dup(fd) // which is kept when the program is executed
		if err != nil {
			return err
		}
		kept = append(kept, copied)
		parts = append(parts, strconv.Itoa(copied))
	}
	var state []byte
	for _, part := range parts {
		state = append(strconv.AppendQuote(state, part), '\n')
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	setMask(sigBlock)
	defer setMask(sigUnblock)
	if stay() {
		return syscall.ECANCELED
	}
	return syscall.Exec("/proc/self/exe", os.Args, append(env, waitVariable+"="+string(state)))
}

// wait is the waiter. It returns if this process is none.
func wait() {
	if _, resumed := syscall.Getenv(resumeVariable); resumed {
		nameProcess()
	}
	text, ok := syscall.Getenv(waitVariable)
	parts, err := unquoted(text)
	if !ok || err != nil || len(parts) < 7 {
		return
	}
	w := Waiter{Debug: parts[0] == "true", Lock: parts[1], Socket: parts[2], Leave: parts[3], Reload: parts[4], Bye: parts[5]}
	for i, digits := range parts[6:] {
		fd, err := strconv.Atoi(digits)
		switch {
		case err != nil:
			return
		case i == 0:
			w.Conn = fd
		default:
			w.Files = append(w.Files, fd)
		}
	}
	if !w.Debug {
		hideProcess()
	}
	r := w.follow()
	if !r.Lost && r.Text == "" && w.isTidy() {
		os.Exit(0)
	}
	w.resume(r)
}

// follow waits until the client has left, and the router has ended if it must.
func (w Waiter) follow() Resumption {
	syscall.SetNonblock(w.Conn, false)
	caught := make(chan os.Signal, 8)
	signal.Notify(caught, append(signals, syscall.SIGPIPE)...)
	setMask(sigUnblock) // of the main thread, which an initialisation runs on, so that a second signal ends the process
	nameProcess()
	left := make(chan struct{})
	go func() {
		for s := range caught {
			switch s {
			case syscall.SIGHUP:
				syscall.Write(w.Conn, []byte(w.Reload))
			case syscall.SIGINT, syscall.SIGTERM:
				select {
				case <-left:
				default:
					close(left)
					syscall.Write(w.Conn, []byte(w.Leave))
					time.AfterFunc(sameSignal, func() { signal.Reset(syscall.SIGINT, syscall.SIGTERM) })
				}
			}
		}
	}()
	var said []byte
	for piece := make([]byte, 512); ; {
		n, err := syscall.Read(w.Conn, piece)
		if err == syscall.EINTR {
			continue
		}
		if n <= 0 {
			break
		}
		if len(said) < maxBye {
			said = append(said, piece[:n]...)
		}
	}
	line, _, ended := bytes.Cut(said, []byte("\n"))
	if text, bye := bytes.CutPrefix(line, []byte(w.Bye)); ended && bye {
		return Resumption{Text: string(bytes.TrimSpace(text))}
	}
	select {
	case <-left: // the client need not be served any more
		return Resumption{}
	default:
		return Resumption{Lost: true}
	}
}

// isTidy reports whether nothing is left to be removed: the last process has done so, or
// the router goes on for other clients.
func (w Waiter) isTidy() bool {
	if _, err := os.Lstat(w.Lock); os.IsNotExist(err) {
		return true
	}
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer syscall.Close(fd)
	return syscall.Connect(fd, &syscall.SockaddrUnix{Name: w.Socket}) == nil
}

// resume executes the program that goes on.
func (w Waiter) resume(r Resumption) {
	state := strconv.AppendQuote(nil, strconv.FormatBool(r.Lost))
	state = strconv.AppendQuote(append(state, '\n'), r.Text)
	for _, fd := range w.Files {
		state = strconv.AppendQuote(append(state, '\n'), strconv.Itoa(fd))
	}
	syscall.CloseOnExec(w.Conn)
	os.Unsetenv(waitVariable)
	signal.Ignore(syscall.SIGHUP)
	err := syscall.Exec("/proc/self/exe", os.Args, append(os.Environ(), resumeVariable+"="+string(state)))
	os.Stderr.WriteString("metarouter: go on after the shared router has ended: " + err.Error() + "\n")
	os.Exit(1)
}

// Resumed returns what a waiter has left, and forgets it; ok is false if this process was
// none.
func Resumed() (r Resumption, ok bool) {
	text, ok := syscall.Getenv(resumeVariable)
	os.Unsetenv(resumeVariable)
	parts, err := unquoted(text)
	if !ok || err != nil || len(parts) < 2 {
		return r, false
	}
	r.Lost, r.Text = parts[0] == "true", parts[1]
	for _, digits := range parts[2:] {
		fd, err := strconv.Atoi(digits)
		if err != nil {
			return r, false
		}
		syscall.CloseOnExec(fd)
		r.Files = append(r.Files, fd)
	}
	return r, true
}

// unquoted returns the parts of a state.
func unquoted(state string) (parts []string, err error) {
	for line := range bytes.Lines([]byte(state)) {
		part, err := strconv.Unquote(string(bytes.TrimSuffix(line, []byte("\n"))))
		if err != nil {
			return nil, err
		}
		parts = append(parts, part)
	}
	return parts, nil
}

// nameProcess gives the process the name that tools such as ps show: that of the program, not
// of the link by which it was executed.
func nameProcess() {
	name := []byte(os.Args[0])
	name = append(name[bytes.LastIndexByte(name, '/')+1:], 0)
	syscall.RawSyscall6(syscall.SYS_PRCTL, syscall.PR_SET_NAME, uintptr(unsafe.Pointer(&name[0])), 0, 0, 0, 0)
}

const sigBlock, sigUnblock = 0, 1 // of rt_sigprocmask

// setMask blocks or unblocks the signals in this thread.
func setMask(how uintptr) {
	var set uint64
	for _, s := range signals {
		set |= 1 << (s.(syscall.Signal) - 1)
	}
	syscall.RawSyscall6(syscall.SYS_RT_SIGPROCMASK, how, uintptr(unsafe.Pointer(&set)), 0, unsafe.Sizeof(set), 0, 0)
}

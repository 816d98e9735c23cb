package fakeserver

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	signals "github.com/mcp-metarouter/metarouter/internal/signal"
)

// A process is where the server runs: a process of the system, or a part of the test's.
type process struct {
	pid            int
	dir            string
	env            []string
	stdin          io.Reader
	stdout, stderr io.Writer
	end            func(status int) // does not return
	killed         chan struct{}    // closed at the end of a process that is a part of the test's

	mu   sync.Mutex
	last []func() // guarded by mu
}

// systemProcess is the process that this program runs in.
func systemProcess() *process {
	dir, _ := os.Getwd()
	return &process{pid: os.Getpid(), dir: dir, env: os.Environ(), stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr, end: os.Exit, killed: make(chan struct{})}
}

// atExit has a function called at the end of a process that is a part of the test's.
func (p *process) atExit(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last = append(p.last, f)
}

// sleep waits, or ends the goroutine with the process.
func (p *process) sleep(d time.Duration) {
	if d == 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-p.killed:
		runtime.Goexit()
	}
}

// lastPID is the last process id that Play gave: above the ids of systems, so that no signal reaches a process.
var lastPID atomic.Int64

// Stdin is the end of a pipe to which a client writes.
type Stdin interface {
	io.WriteCloser
	TryWrite(p []byte) (int, error)
	SetWriteDeadline(time.Time) error
}

// A Played is a server that runs as a part of this process. Wait returns its exit code, or -1 and the signal that ended it.
type Played struct {
	PID             int
	Stdin           Stdin
	Stdout, Stderr  io.ReadCloser
	Wait            func() (code int, signal string)
	Terminate, Kill func()
}

// played are the process ids of the servers of [Play] that run.
var played sync.Map

// IsPlayed reports whether a process id belongs to a server of [Play], and whether the server runs.
func IsPlayed(pid int) (is, runs bool) {
	_, runs = played.Load(pid)
	return pid > 1<<30, runs
}

// Play runs a command of [Command] as a part of this process. It returns nil for other commands, and for servers that have
// children or read signals: they need a process of their own.
func Play(command string, args []string, dir string, env []string) *Played {
	if self, err := os.Executable(); err != nil || command != self || len(args) == 0 || args[0] != marker {
		return nil
	}
	p, started := newPlayed(dir, env)
	o := parseOptions(p, args[1:])
	if o.grandchild || o.setsid || o.onlySleeping || o.onlyEra != "" || o.ignoreTerm {
		return nil
	}
	played.Store(p.pid, true)
	if o.pidFile != "" {
		o.appendTo(o.pidFile, fmt.Sprintf("%d\n", p.pid))
	}
	go func() {
		o.sleep(time.Millisecond) // a program takes longer to start, and its client has written the first message then
		o.play()
	}()
	return started
}

// A Program runs until the end of its process, and returns the exit code. Its stdin ends when the process is killed.
type Program func(env []string, stdin io.Reader, stdout, stderr io.Writer) (code int)

// PlayProgram runs a program as a part of this process.
func PlayProgram(run Program, dir string, env []string) *Played {
	p, started := newPlayed(dir, env)
	played.Store(p.pid, true)
	go func() { p.end(run(env, p.stdin, p.stdout, p.stderr)) }()
	return started
}

// newPlayed returns a process that is a part of this one, and its parent's view of it.
func newPlayed(dir string, env []string) (*process, *Played) {
	if absolute, err := filepath.Abs(dir); err == nil {
		dir = absolute
	}
	in, stdin := newPipe()
	stdout, out := newPipe()
	stderr, errs := newPipe()
	p := &process{pid: 1<<30 + int(lastPID.Add(1)), dir: dir, env: env, stdin: in, stdout: out, stderr: errs, killed: make(chan struct{})}
	var code int
	var signal string
	ended := func(status int, by string) {
		p.mu.Lock()
		defer p.mu.Unlock()
		if signals.IsClosed(p.killed) {
			return
		}
		code, signal = status, by
		for _, f := range p.last {
			f()
		}
		played.Delete(p.pid)
		close(p.killed)
		in.Close()
		out.Close()
		errs.Close()
	}
	p.end = func(status int) {
		ended(status, "")
		runtime.Goexit()
	}
	bySignal := func(s syscall.Signal) func() { return func() { ended(-1, "signal: "+s.String()) } }
	return p, &Played{
		PID: p.pid, Stdin: stdin, Stdout: stdout, Stderr: stderr, Terminate: bySignal(syscall.SIGTERM), Kill: bySignal(syscall.SIGKILL),
		Wait: func() (int, string) {
			<-p.killed
			return code, signal
		},
	}
}

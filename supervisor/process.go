package supervisor

import (
	"fmt"
	"os"
	"os/exec"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/pipe"
)

const (
	// graceEOF is how long a server may take to end once its stdin is closed,
	// graceTerm how long once it was asked by SIGTERM.
	graceEOF  = 2 * time.Second
	graceTerm = 2 * time.Second
	// graceOutput is how long what a dead server has printed may take to arrive.
	graceOutput = 500 * time.Millisecond
)

// A process is a running child with all that it started.
type process struct {
	pid    int
	born   time.Time
	stdin  *pipe.End
	stdout *pipe.End
	stderr *os.File
	exited chan struct{}    // closed once the child is reaped and its group is gone
	state  *os.ProcessState // valid after exited
	tree   tree             // how to reach the child and its descendants
}

// A reaper starts processes such that none outlives the router.
type reaper struct {
	guard *guard // nil: nothing covers the router's sudden death
	mark  string // in the environment of every process that it starts, with a number behind
}

// start runs the command. path is the executable, env the whole environment but
// for the mark, which distinguishes this process's descendants from all others.
func (r *reaper) start(path string, args, env []string, dir, mark string) (_ *process, err error) {
	var files [6]*os.File
	defer func() {
		if err != nil {
			for _, f := range files {
				f.Close()
			}
		}
	}()
	for i := 0; i < len(files); i += 2 {
		if files[i], files[i+1], err = os.Pipe(); err != nil {
			return nil, fmt.Errorf("open a pipe: %w", err)
		}
	}
	cmd := &exec.Cmd{
		Path: path, Args: append([]string{path}, args...), Dir: dir,
		Env:   append(env, markVariable+"="+mark),
		Stdin: files[0], Stdout: files[3], Stderr: files[5],
	}
	p := &process{stdin: pipe.New(files[1]), stdout: pipe.New(files[2]), stderr: files[4], exited: make(chan struct{})}
	if err := p.tree.start(cmd, r.guard); err != nil {
		return nil, err
	}
	p.pid, p.born = cmd.Process.Pid, time.Now()
	for _, i := range []int{0, 3, 5} {
		files[i].Close()
	}
	go func() { // ends with the process, whose exit stop and its callers await
		defer close(p.exited)
		p.tree.wait(cmd, r.guard)
		p.state = cmd.ProcessState
	}()
	return p, nil
}

// stop ends the process: stdin closed, grace, SIGTERM to its group, grace,
// SIGKILL. One that has never spoken, such as a package runner that is still
// downloading, is not waiting for the end of its stdin. It returns when the
// child is reaped.
func (p *process) stop(spoke bool) {
	p.stdin.Close()
	if p.hasExited() || spoke && within(p.exited, graceEOF) {
		return
	}
	p.tree.terminate()
	if within(p.exited, graceTerm) {
		return
	}
	p.tree.kill()
	<-p.exited
}

func (p *process) hasExited() bool { return isClosed(p.exited) }

// epitaph says how the process ended, as "exited with status 1".
func (p *process) epitaph() string {
	if !p.hasExited() {
		return "closed its stdout"
	}
	if code := p.state.ExitCode(); code >= 0 {
		return fmt.Sprintf("exited with status %d", code)
	}
	return "was ended by " + p.state.String()
}

// within reports whether c is closed before d has passed.
func within(c <-chan struct{}, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-c:
		return true
	case <-t.C:
		return false
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

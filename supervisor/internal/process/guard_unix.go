//go:build unix

package process

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"go.uber.org/zap"
)

// RunGuard is the whole of the guard process. It reads from r the router's mark and
// the process groups as they come and go, a line for each change, until r ends
// because the router has closed the pipe or is dead. Then it kills the groups that
// are still registered, and every process that carries the mark. It ignores the
// signals that end a router, and runs in a session of its own, where neither the
// terminal nor a signal to the router's group reaches it.
//
// With the arguments "--" and a command, the guard's program must call [ExecShim]
// instead.
func RunGuard(r io.Reader) {
	signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGPIPE)
	groups := make(map[int]leader)
	mark := ""
	for lines := bufio.NewScanner(r); lines.Scan(); {
		op, what, _ := strings.Cut(lines.Text(), " ")
		switch op {
		case "mark":
			mark = what
			continue
		case "done": // the router has ended in order, and left nothing
			return
		}
		group, err := strconv.Atoi(what)
		if err != nil || group <= 1 {
			continue
		}
		switch op {
		case "+":
			groups[group] = lead(group)
		case "-":
			groups[group].close()
			delete(groups, group)
		}
	}
	for group, l := range groups {
		if l.alive() {
			syscall.Kill(-group, syscall.SIGKILL)
		}
	}
	for range 2 { // a process that was just executing may carry its mark a moment later
		if mark != "" {
			killMarked(mark + ".")
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// guardTimeout is how long the guard process may take to read a line, or to end.
const guardTimeout = 2 * time.Second

// A guard is the router's end of the process guard. Its methods do nothing on
// nil.
type guard struct {
	command []string
	mark    string
	log     *zap.Logger
	watched sync.WaitGroup

	mu       sync.Mutex // guards the fields below, and the order of writes to pipe
	pipe     *os.File
	process  *os.Process
	launched int // guard processes so far
	groups   map[int]bool
	closing  bool
}

func startGuard(command []string, mark string, log *zap.Logger) (*guard, error) {
	if len(command) == 0 {
		return nil, nil
	}
	g := &guard{command: command, mark: mark, log: log, groups: make(map[int]bool)}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g, g.launch()
}

// launch starts the process and sends it every group; mu is held.
func (g *guard) launch() error {
	r, w, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("start the guard: %w", err)
	}
	cmd := exec.Command(g.command[0], g.command[1:]...)
	cmd.Stdin = r
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME")}
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	err = cmd.Start()
	r.Close()
	if err != nil {
		w.Close()
		return fmt.Errorf("start the guard: %w", err)
	}
	g.pipe, g.process = w, cmd.Process
	g.launched++
	g.send("mark %s\n", g.mark)
	for group := range g.groups {
		g.send("+ %d\n", group)
	}
	g.watched.Go(func() { g.watch(cmd) })
	return nil
}

// maxGuards bounds how often a guard process is started in a router's life.
const maxGuards = 20

// watch starts the guard process again if it is killed.
func (g *guard) watch(cmd *exec.Cmd) {
	err := cmd.Wait()
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closing {
		return
	}
	g.pipe.Close()
	g.pipe = nil
	g.log.Warn("the guard process ended, starting another", zap.Error(err))
	if g.launched == maxGuards {
		err = errors.New("it ended too often")
	} else {
		err = g.launch()
	}
	if err != nil {
		g.log.Error("no guard process: if the router is killed now, servers may outlive it", zap.Error(err))
	}
}

// send writes a line to the guard process; mu is held.
func (g *guard) send(format string, args ...any) {
	if g.pipe == nil {
		return
	}
	g.pipe.SetWriteDeadline(time.Now().Add(guardTimeout))
	if _, err := fmt.Fprintf(g.pipe, format, args...); err != nil && !errors.Is(err, syscall.EPIPE) {
		g.log.Warn("the guard process does not read", zap.Error(err))
	}
}

// add registers a process group.
func (g *guard) add(group int) {
	if g == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.groups[group] = true
	g.send("+ %d\n", group)
}

// remove strikes the group off: its id may soon mean another group.
func (g *guard) remove(group int) {
	if g == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.groups, group)
	g.send("- %d\n", group)
}

// close ends the guard process and waits for its end. A guard that does not end by
// itself is killed. No process may be left.
func (g *guard) close() {
	if g == nil {
		return
	}
	g.mu.Lock()
	g.closing = true
	g.send("done\n")
	if g.pipe != nil {
		g.pipe.Close()
	}
	late := time.AfterFunc(guardTimeout, func() { g.process.Kill() })
	g.mu.Unlock()
	g.watched.Wait()
	late.Stop()
}

// pid returns the id of the guard process, 0 if none runs.
func (g *guard) pid() int {
	if g == nil {
		return 0
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.process.Pid
}

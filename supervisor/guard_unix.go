//go:build unix

package supervisor

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

// Guard is the whole of the guard process. It reads from r which process groups
// there are, a line for each change, until r ends: the router has closed the
// pipe or is dead. Then it kills the groups that are still registered, and what
// has left them but bears the router's mark. It is deaf to the signals that end
// a router, and runs in a session of its own, out of reach of the terminal and
// of whoever kills the router's group.
func Guard(r io.Reader) {
	signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGPIPE)
	groups := make(map[int]leader)
	marks := make(map[string]bool)
	for lines := bufio.NewScanner(r); lines.Scan(); {
		op, rest, _ := strings.Cut(lines.Text(), " ")
		id, mark, _ := strings.Cut(rest, " ")
		group, err := strconv.Atoi(id)
		if err != nil || group <= 1 {
			continue
		}
		switch op {
		case "+":
			groups[group] = lead(group)
			router, _, _ := strings.Cut(mark, ".")
			marks[router+"."] = true
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
	for mark := range marks {
		killMarked(mark)
	}
}

// A guard is the router's end of the guard process. Its methods do nothing on
// nil.
type guard struct {
	command []string
	log     *zap.Logger
	done    sync.WaitGroup

	// mu guards what follows.
	mu      sync.Mutex
	pipe    *os.File
	process int // its id
	groups  map[int]string
	closing bool
}

func startGuard(command []string, log *zap.Logger) (*guard, error) {
	if len(command) == 0 {
		return nil, nil
	}
	g := &guard{command: command, log: log, groups: make(map[int]string)}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g, g.launch()
}

// launch starts the process and tells it of every group; mu is held.
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
	g.pipe, g.process = w, cmd.Process.Pid
	for group, mark := range g.groups {
		g.tell("+ %d %s\n", group, mark)
	}
	g.done.Go(func() { g.watch(cmd) })
	return nil
}

// watch starts the guard anew if somebody kills it.
func (g *guard) watch(cmd *exec.Cmd) {
	began := time.Now()
	err := cmd.Wait()
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closing {
		return
	}
	g.pipe.Close()
	g.pipe = nil
	g.log.Warn("the guard process ended; if the router dies now, servers may outlive it", zap.Error(err))
	if time.Since(began) < time.Second {
		return // it would only go on like that
	}
	if err := g.launch(); err != nil {
		g.log.Error("no guard process", zap.Error(err))
	}
}

func (g *guard) tell(format string, args ...any) {
	if g.pipe == nil {
		return
	}
	g.pipe.SetWriteDeadline(time.Now().Add(stallTimeout))
	if _, err := fmt.Fprintf(g.pipe, format, args...); err != nil && !errors.Is(err, syscall.EPIPE) {
		g.log.Warn("the guard process does not listen", zap.Error(err))
	}
}

// pid returns the id of the guard process.
func (g *guard) pid() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.process
}

func (g *guard) add(group int, mark string) {
	if g == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.groups[group] = mark
	g.tell("+ %d %s\n", group, mark)
}

func (g *guard) remove(group int) {
	if g == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.groups, group)
	g.tell("- %d\n", group)
}

// close ends the guard process and waits for its end.
func (g *guard) close() {
	if g == nil {
		return
	}
	g.mu.Lock()
	g.closing = true
	if g.pipe != nil {
		g.pipe.Close()
	}
	g.mu.Unlock()
	g.done.Wait()
}

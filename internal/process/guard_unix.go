//go:build unix

package process

import (
	"encoding/gob"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/internal/keeper"
)

const (
	// guardTimeout is how long the guard process may take to read an order, or to kill
	// the processes that a server has left.
	guardTimeout = 5 * time.Second
	// guardStart is how long it may take to start a server. Then it hangs, and is killed.
	guardStart = 15 * time.Second
	// maxGuards bounds how often a guard process is started in a router's life.
	maxGuards = 20
)

// RunGuard is the whole of the guard process: see [keeper.Run].
func RunGuard(stdin *os.File) { keeper.Run(stdin) }

// errNoGuard says that no guard process could start a server.
var errNoGuard = errors.New("no guard process runs")

// A guard is the router's end of the process guard. Its methods do nothing on nil.
type guard struct {
	command []string
	mark    string
	atEnd   []string // files and folders that the guard process removes at its end
	log     *zap.Logger
	watched sync.WaitGroup

	mu       sync.Mutex    // guards the fields below, and the order of writes to conn
	conn     *net.UnixConn // nil: no guard process runs
	process  *os.Process
	launched int                // guard processes so far
	groups   map[int]*Container // of servers that the guard process has not started; nil for no container
	closing  bool
}

func startGuard(command []string, mark string, remove []string, log *zap.Logger) (*guard, error) {
	if len(command) == 0 {
		return nil, nil
	}
	g := &guard{command: command, mark: mark, atEnd: remove, log: log, groups: make(map[int]*Container)}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g, g.launch()
}

// launch starts the process, and sends it every group; mu is held.
func (g *guard) launch() error {
	conn, theirs, err := socketPair()
	if err != nil {
		return fmt.Errorf("start the guard: %w", err)
	}
	cmd := exec.Command(g.command[0], g.command[1:]...)
	cmd.Stdin = theirs
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME")}
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	err = cmd.Start()
	theirs.Close()
	if err != nil {
		conn.Close()
		return fmt.Errorf("start the guard: %w", err)
	}
	g.conn, g.process = conn, cmd.Process
	g.launched++
	g.send(keeper.Order{Mark: g.mark, Remove: g.atEnd})
	for group, c := range g.groups {
		g.send(keeper.Order{Watch: group, Stop: c})
	}
	g.watched.Go(func() { g.watch(cmd) })
	return nil
}

// watch starts the guard process again if it is killed.
func (g *guard) watch(cmd *exec.Cmd) {
	err := cmd.Wait()
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closing {
		return
	}
	g.conn.Close()
	g.conn = nil
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

// send sends an order with files to the guard process; mu is held. A guard process that does not read
// is killed, and another one is started.
func (g *guard) send(o keeper.Order, files ...*os.File) error {
	if g.conn == nil {
		return errNoGuard
	}
	g.conn.SetWriteDeadline(time.Now().Add(guardTimeout))
	err := keeper.Send(g.conn, o, files...)
	if err != nil && !errors.Is(err, syscall.E2BIG) {
		g.process.Kill()
	}
	return err
}

// start has the guard process start a server. It returns the process id and the link
// over which the guard process reports on the server.
func (g *guard) start(o keeper.Start, stdin, stdout, stderr *os.File) (pid int, l *link, err error) {
	conn, theirs, err := socketPair()
	if err != nil {
		return 0, nil, err
	}
	g.mu.Lock()
	err = g.send(keeper.Order{Start: &o}, stdin, stdout, stderr, theirs)
	hanging := g.process
	g.mu.Unlock()
	theirs.Close()
	l = &link{conn: conn, reports: gob.NewDecoder(conn)}
	var r keeper.Report
	if err == nil {
		conn.SetReadDeadline(time.Now().Add(guardStart))
		r, err = l.next()
		conn.SetReadDeadline(time.Time{})
		if err != nil {
			hanging.Kill() // else it may start the server later
		}
	}
	switch {
	case err != nil:
		conn.Close()
		return 0, nil, errNoGuard
	case r.Kind != keeper.Started:
		conn.Close()
		return 0, nil, &os.PathError{Op: "fork/exec", Path: o.Path, Err: syscall.Errno(r.Value)}
	}
	return r.Value, l, nil
}

// add registers the process group of a server that the guard process has not started, with its
// container if it has one.
func (g *guard) add(group int, c *Container) {
	if g == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.groups[group] = c
	g.send(keeper.Order{Watch: group, Stop: c})
}

// remove strikes the group off: its id may soon mean another group.
func (g *guard) remove(group int) {
	if g == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.groups, group)
	g.send(keeper.Order{Unwatch: group})
}

// replace kills a guard process that hangs; another one is started.
func (g *guard) replace() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.process.Kill()
}

// close ends the guard process and waits for its end. A guard that does not end by
// itself is killed. All servers must have been stopped.
func (g *guard) close() {
	if g == nil {
		return
	}
	g.mu.Lock()
	g.closing = true
	if g.conn != nil {
		g.send(keeper.Order{Done: true})
		g.conn.Close()
	}
	late := time.AfterFunc(guardTimeout, func() { g.process.Kill() })
	g.mu.Unlock()
	g.watched.Wait()
	late.Stop()
}

// GuardPID returns the id of the guard process, which must have been started.
func (s *Starter) GuardPID() int { return s.guard.pid() }

func (g *guard) pid() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.process.Pid
}

// A link connects the router with the guard process's part for one server.
type link struct {
	conn    *net.UnixConn
	reports *gob.Decoder
}

func (l *link) next() (r keeper.Report, err error) {
	err = l.reports.Decode(&r)
	return r, err
}

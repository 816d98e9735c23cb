//go:build unix

package keeper

import (
	"bytes"
	"encoding/gob"
	"net"
	"os"
	ossignal "os/signal"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/signal"
)

// maxReports is how many reports a server has: Started or NotStarted, Exited, and Gone.
const maxReports = 3

// Run is the whole of the guard process. It starts the router's servers, which are
// its children, and reports how they end. When a server has ended it kills its
// descendants. When the socket stdin ends, because the router has closed it or is dead, it
// kills everything that it has started with all descendants, and returns.
//
// On Linux the process is the subreaper of the servers: whatever a descendant does, the
// kernel keeps it below this process. A child that was not reaped keeps its id, so no
// other process is killed.
//
// It catches the signals that end a router, and runs in a session of its own, where
// neither the terminal nor a signal to the router's group reaches it.
func Run(stdin *os.File) {
	// Caught and not ignored, since servers would inherit that.
	ossignal.Notify(make(chan os.Signal, 1), syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGPIPE)
	adoptOrphans()
	conn, err := net.FileConn(stdin)
	router, ok := conn.(*net.UnixConn)
	if err != nil || !ok {
		return // a person has typed the guard's command
	}
	k := &keeper{
		served: make(map[int]*guarded), watched: make(map[int]watchedGroup),
		started: make(chan struct{}, 1), swept: make(chan struct{}, 1), tags: canTag(),
	}
	go k.reap()  // ends with this process,
	go k.sweep() // and so does this
	k.end(k.follow(router))
}

// A keeper is the state of the guard process.
type keeper struct {
	started chan struct{} // holds an item after a start
	swept   chan struct{} // holds an item after an end
	tags    bool          // the system keeps tags

	// The goroutine of follow and end alone uses these.
	remove  []string             // at the end
	watched map[int]watchedGroup // groups that another process has started

	containers sync.WaitGroup // that are to be stopped

	mu     sync.Mutex       // guards the fields below, and that no child is reaped while it is held
	mark   string           // the router's
	served map[int]*guarded // by process id, of the server or of the command that stops its container
	ended  []*guarded       // with descendants that are to be killed
}

// A guarded server was started by the guard process.
type guarded struct {
	number  int64
	link    *os.File
	reports chan Report // has room for all; closed after the last

	container *Container // nil without one, or when it was stopped
	ended     bool       // the server's own process
	stopping  [][]string // the command lines that are still to stop the container
}

// A watchedGroup is a process group, which may be the client of a container.
type watchedGroup struct {
	Leader
	container *Container
}

// writeReports writes the server's reports to the link, and closes it after the last. It waits while
// the router does not read: the guard process ends with the router.
func (s *guarded) writeReports() {
	link := gob.NewEncoder(s.link)
	for r := range s.reports {
		link.Encode(r) // fails if the router is dead, which the other socket shows
	}
	s.link.Close()
}

// follow carries out orders until the router ends. inOrder says that it had stopped all
// servers.
func (k *keeper) follow(router *net.UnixConn) (inOrder bool) {
	for {
		o, files, err := readOrder(router)
		if err != nil || o.Done {
			return err == nil
		}
		switch {
		case o.Start != nil && len(files) == 4:
			k.start(o.Start, files)
			continue // it has closed the files
		case o.Watch > 1:
			k.watched[o.Watch] = watchedGroup{Lead(o.Watch), o.Stop}
		case o.Unwatch > 1:
			delete(k.watched, o.Unwatch)
		case o.Mark != "":
			k.remove = o.Remove
			k.mu.Lock()
			k.mark = o.Mark
			k.mu.Unlock()
		}
		for _, fd := range files {
			syscall.Close(fd)
		}
	}
}

func (k *keeper) start(o *Start, files []int) {
	err := syscall.SetNonblock(files[3], true) // to wait for the link takes no thread
	s := &guarded{number: o.Number, link: os.NewFile(uintptr(files[3]), "link"), reports: make(chan Report, maxReports)}
	pid := 0
	if err == nil {
		k.mu.Lock()
		untag := tagChildren(tagOf(k.mark, o.Number, o.KeepStrays))
		pid, err = syscall.ForkExec(o.Path, o.Args, &syscall.ProcAttr{
			Dir: o.Dir, Env: o.Env, Files: []uintptr{uintptr(files[0]), uintptr(files[1]), uintptr(files[2])},
			Sys: &syscall.SysProcAttr{Setpgid: true},
		})
		untag()
		if err == nil {
			k.served[pid] = s
			k.hold(s, o.Container)
			s.reports <- Report{Started, pid}
		}
		k.mu.Unlock()
	}
	for _, fd := range files[:3] {
		syscall.Close(fd)
	}
	go s.writeReports()
	if err != nil {
		errno, _ := err.(syscall.Errno)
		s.reports <- Report{NotStarted, max(int(errno), 1)}
		close(s.reports)
		return
	}
	signal.Leave(k.started)
	go k.obey(pid, s) // ends with the link
}

// obey signals the server's group as the router asks.
func (k *keeper) obey(pid int, s *guarded) {
	for command := make([]byte, 1); ; {
		if _, err := s.link.Read(command); err != nil {
			return
		}
		sig := syscall.SIGTERM
		if command[0] == LinkKill {
			sig = syscall.SIGKILL
		}
		k.mu.Lock()
		if k.served[pid] == s {
			syscall.Kill(-pid, sig)
		}
		k.mu.Unlock()
	}
}

// reap waits for all children: servers, and the orphans that they leave. Between a
// server's death and its reaping its id can't be used again, so the rest of its group
// is killed in between.
func (k *keeper) reap() {
	for {
		pid, ok := waitAny()
		if !ok { // no child
			<-k.started
			continue
		}
		k.mu.Lock()
		s := k.served[pid]
		if s != nil {
			syscall.Kill(-pid, syscall.SIGKILL)
		}
		var status syscall.WaitStatus
		syscall.Wait4(pid, &status, 0, nil)
		if s != nil {
			delete(k.served, pid)
			if !s.ended {
				s.ended, s.stopping = true, s.container.Stop()
				s.reports <- Report{Exited, int(status)}
			}
			if !k.stopContainer(s) {
				k.ended = append(k.ended, s)
				signal.Leave(k.swept)
			}
		}
		k.mu.Unlock()
	}
}

// hold has the container be awaited at the end; it may be nil. mu is held.
func (k *keeper) hold(s *guarded, c *Container) {
	if s.container = c; c != nil {
		k.containers.Add(1)
	}
}

// stopContainer starts the next command that stops the container of a server which has ended. It
// returns false when no command is left. mu is held.
//
// The command is no part of the server: nothing that the server has left is killed before its
// container was stopped, since podman's containers are processes below their client.
func (k *keeper) stopContainer(s *guarded) bool {
	for len(s.stopping) > 0 {
		line := s.stopping[0]
		s.stopping = s.stopping[1:]
		pid, err := s.container.run(line)
		if err != nil {
			continue
		}
		k.served[pid] = s
		signal.Leave(k.started)
		time.AfterFunc(ContainerTimeout, func() {
			k.mu.Lock()
			defer k.mu.Unlock()
			if k.served[pid] == s {
				syscall.Kill(-pid, syscall.SIGKILL)
			}
		})
		return true
	}
	if s.container != nil {
		s.container.Discard()
		s.container = nil
		k.containers.Done()
	}
	return false
}

// run starts a command, without input and output.
func (c *Container) run(line []string) (pid int, err error) {
	null, err := syscall.Open(os.DevNull, syscall.O_RDWR|syscall.O_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	defer syscall.Close(null)
	files := []uintptr{uintptr(null), uintptr(null), uintptr(null)}
	return syscall.ForkExec(line[0], line, &syscall.ProcAttr{Dir: c.Dir, Env: c.Env, Files: files, Sys: &syscall.SysProcAttr{Setpgid: true}})
}

// awaitContainers returns when all containers were stopped, or the time for that has passed.
func (k *keeper) awaitContainers() {
	stopped := make(chan struct{})
	go func() { k.containers.Wait(); close(stopped) }() // ends with this process at the latest
	signal.Within(stopped, 3*ContainerTimeout)          // for two commands, and the end of the client
}

// sweep kills the descendants of servers that have ended.
func (k *keeper) sweep() {
	for range k.swept {
		k.mu.Lock()
		ended := k.ended
		k.ended = nil
		k.mu.Unlock()
		k.killLeft(ended, false)
		for _, s := range ended {
			s.reports <- Report{Kind: Gone}
			close(s.reports)
		}
	}
}

// end kills everything that is left when the router has ended.
func (k *keeper) end(inOrder bool) {
	k.mu.Lock()
	mark := k.mark
	for pid, s := range k.served {
		if !s.ended {
			syscall.Kill(-pid, syscall.SIGKILL)
		}
	}
	for group, w := range k.watched {
		if w.Alive() {
			syscall.Kill(-group, syscall.SIGKILL)
		}
		s := &guarded{ended: true, stopping: w.container.Stop(), reports: make(chan Report, maxReports)}
		k.hold(s, w.container)
		k.stopContainer(s)
	}
	k.mu.Unlock()
	k.awaitContainers()
	k.killLeft(nil, true)
	for range 2 { // a process that was just executing may carry its mark a moment later
		if inOrder || mark == "" {
			break
		}
		KillMarked(mark + ".")
		time.Sleep(50 * time.Millisecond)
	}
	for _, path := range k.remove {
		os.Remove(path)
	}
}

// numberIn returns the number of the server's process in an environment, as the mark
// has it; ok is false if there is no mark of this router.
func numberIn(environ []byte, mark string) (number int64, ok bool) {
	_, rest, ok := bytes.Cut(append([]byte{0}, environ...), []byte("\x00"+MarkVariable+"="+mark+"."))
	digits, _, found := bytes.Cut(rest, []byte("."))
	number, err := strconv.ParseInt(string(digits), 10, 64)
	return number, ok && found && err == nil && number >= 0
}

//go:build linux

package process

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"github.com/mcp-metarouter/metarouter/internal/keeper"
	"github.com/mcp-metarouter/metarouter/test/expect"
	"github.com/mcp-metarouter/metarouter/test/layer"
	"github.com/mcp-metarouter/metarouter/test/mcptest"
)

// hideFromLimits drops the tag that the process has inherited.
func hideFromLimits() {
	const rlimitLocks = 10
	unix.Setrlimit(rlimitLocks, &unix.Rlimit{Cur: unix.RLIM_INFINITY, Max: unix.RLIM_INFINITY})
}

// endFirstThread ends the thread that the process began with. The system then shows the process as
// a zombie, and the other threads go on.
func endFirstThread() {
	for first := make(chan bool); ; {
		go func() {
			runtime.LockOSThread() // which ends with this goroutine, so that others get other threads
			if unix.Gettid() == os.Getpid() {
				close(first)
				unix.Syscall(unix.SYS_EXIT, 0, 0, 0)
			}
			first <- false
		}()
		if _, more := <-first; !more {
			return
		}
	}
}

// A stage is where the test binary plays parts.
type stage struct {
	*testing.T
	folder string
}

func newStage(t *testing.T) stage {
	t.Helper()
	s := stage{t, t.TempDir()}
	t.Cleanup(func() {
		files, _ := filepath.Glob(filepath.Join(s.folder, "*"))
		for _, file := range files {
			if pid := pidIn(file); pid > 1 && isOurs(pid) {
				syscall.Kill(pid, syscall.SIGKILL)
			}
		}
	})
	return s
}

func pidIn(file string) (pid int) {
	b, _ := os.ReadFile(file)
	fmt.Sscan(string(b), &pid)
	return pid
}

// isOurs reports whether the process plays a part, if only with some of its threads.
func isOurs(pid int) bool {
	lines, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/cmdline", pid))
	for _, file := range lines {
		if line, _ := os.ReadFile(file); strings.Contains(string(line), "\x00play\x00") {
			return true
		}
	}
	return false
}

// pid returns the process id of a part once it plays.
func (s stage) pid(part string) int {
	s.Helper()
	pid := 0
	mcptest.WaitFor(s.T, part, func() bool { pid = pidIn(filepath.Join(s.folder, part)); return pid > 0 })
	return pid
}

func (s stage) gone(part string) {
	s.Helper()
	pid := s.pid(part)
	mcptest.WaitFor(s.T, "the end of "+part, func() bool { return !isOurs(pid) })
}

func (s stage) lives(part string) {
	s.Helper()
	if !mcptest.Alive(s.pid(part)) {
		s.Errorf("%s was killed", part)
	}
}

// starter returns an open Starter with a process guard; end closes it.
func (s stage) starter() (starter *Starter, end func()) {
	s.Helper()
	ending := make(chan struct{})
	starter = NewStarter(guardCommand(), ending, zap.NewNop())
	expect.OK(s, starter.Open())
	return starter, func() { close(ending); starter.Close() }
}

func (s stage) start(starter *Starter, c Command, args ...string) *Process {
	s.Helper()
	c.Path = guardCommand()[0]
	c.Args = append([]string{"play", args[0], s.folder}, args[1:]...)
	if c.Env == nil {
		c.Env = os.Environ()
	}
	p, err := starter.Start(c)
	expect.OK(s, err)
	s.pid("server")
	return p
}

func (p *Process) stopAndClose() {
	p.Stop(true)
	p.Stdout.Close()
	p.Stderr.Close()
}

// Orphans die with the server that they descend from, although they have left its group
// and session, wiped their environment ("wiped"), and changed their limits ("hidden").
func TestOrphansDieWithTheirServer(t *testing.T) {
	layer.Integration(t)
	t.Parallel()
	for _, orphan := range []string{"marked", "wiped", "hidden"} {
		for _, crash := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, crash %v", orphan, crash), func(t *testing.T) {
				t.Parallel()
				s := newStage(t)
				starter, end := s.starter()
				defer end()
				p := s.start(starter, Command{}, "server", orphan)
				s.lives(orphan)
				if crash {
					syscall.Kill(p.PID, syscall.SIGKILL)
					<-p.Exited
				} else {
					p.Stdin.Close()
					<-p.Exited // on a busy machine it may take longer than Stop waits
					p.Stop(true)
				}
				s.gone(orphan)
				p.stopAndClose()
				code, signal := p.ExitStatus()
				if want := map[bool]string{true: "signal: killed"}[crash]; signal != want || !crash && code != 0 {
					t.Errorf("the server ended with %d, %q", code, signal)
				}
			})
		}
	}
}

// An orphan of one server survives the end of another one, although nothing but its
// tag tells whose it is.
func TestOrphanOutlivesOtherServers(t *testing.T) {
	layer.Integration(t)
	t.Parallel()
	s, other := newStage(t), newStage(t)
	starter, end := s.starter()
	p, q := s.start(starter, Command{}, "server", "wiped"), other.start(starter, Command{}, "server", "wiped")
	other.pid("wiped")
	q.stopAndClose()
	other.gone("wiped")
	s.lives("wiped")
	p.stopAndClose()
	s.gone("wiped")
	end()
}

// All descendants die with a router that is killed.
func TestOrphansDieWithTheRouter(t *testing.T) {
	layer.Integration(t)
	t.Parallel()
	for _, orphan := range []string{"marked", "wiped", "hidden"} {
		t.Run(orphan, func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			router := exec.Command(guardCommand()[0], "play", "router", s.folder, "server", orphan)
			expect.OK(t, router.Start())
			s.pid(orphan)
			s.pid("server")
			s.pid("router")
			router.Process.Kill()
			router.Wait()
			s.gone(orphan)
			s.gone("server")
		})
	}
}

// A browser as Playwright starts it ends with the server: it has its own session and
// environment, and so have its helpers. It also ends if its first thread has ended before the others,
// as is so for a moment whenever a process is killed.
func TestBrowserOfPlaywrightDies(t *testing.T) {
	layer.Integration(t)
	t.Parallel()
	for _, kind := range []string{"whole", "without its first thread"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			starter, end := s.starter()
			defer end()
			p := s.start(starter, Command{}, "playwright", kind)
			for _, part := range []string{"browser", "renderer", "crash-handler"} {
				s.pid(part)
			}
			if browser := s.pid("browser"); kind != "whole" {
				mcptest.WaitFor(t, "the end of its first thread", func() bool { return !mcptest.Alive(browser) })
				if keeper.Lead(browser).Ended() {
					t.Error("the browser counts as dead")
				}
			}
			p.stopAndClose()
			for _, part := range []string{"browser", "renderer", "crash-handler"} {
				s.gone(part)
			}
		})
	}
}

// A real browser as Playwright starts it, which has zygotes, sandboxes and a crash
// handler.
func TestChromiumDies(t *testing.T) {
	layer.Integration(t)
	t.Parallel()
	chromium, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("no chromium")
	}
	s := newStage(t)
	starter, end := s.starter()
	defer end()
	p, err := starter.Start(Command{Path: "/bin/sh", Env: os.Environ(), Args: []string{"-c",
		`setsid env -i HOME="$0" "$1" --headless --no-sandbox --disable-gpu --remote-debugging-port=0 --user-data-dir="$0" about:blank & cat`, s.folder, chromium}})
	expect.OK(t, err)
	browsers := func() (pids []int) {
		lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
		for _, file := range lines {
			line, _ := os.ReadFile(file)
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			if strings.Contains(string(line), s.folder) && pid != p.PID && mcptest.Alive(pid) {
				pids = append(pids, pid)
			}
		}
		return pids
	}
	mcptest.WaitFor(t, "the browser's processes", func() bool { return len(browsers()) >= 3 })
	p.stopAndClose()
	mcptest.WaitFor(t, "the end of the browser", func() bool { return len(browsers()) == 0 })
}

// With killStrays false, a server's group alone is killed.
func TestKeepStrays(t *testing.T) {
	layer.Integration(t)
	t.Parallel()
	for _, orphan := range []string{"marked", "wiped"} {
		s, other := newStage(t), newStage(t)
		starter, end := s.starter()
		p := s.start(starter, Command{KeepStrays: true}, "server", orphan)
		q := other.start(starter, Command{}, "server", orphan)
		s.pid(orphan)
		other.pid(orphan)
		p.stopAndClose()
		s.gone("server")
		q.stopAndClose()
		other.gone(orphan)
		end()
		s.lives(orphan)
	}
}

// fakeOpen returns an environment with an xdg-open in its PATH that leaves a browser.
func (s stage) fakeOpen() []string {
	s.Helper()
	bin := filepath.Join(s.folder, "bin")
	script := fmt.Sprintf("#!/bin/sh\nexport OPENED=$1 INHERITED=$%s\nsetsid %s play sleeper $1 page &\n", MarkVariable, guardCommand()[0])
	expect.OK(s, os.MkdirAll(bin, 0o755))
	expect.OK(s, os.WriteFile(filepath.Join(bin, "xdg-open"), []byte(script), 0o755))
	return append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"))
}

// What a server opens for the user by xdg-open outlives the server and the router.
func TestOpenedPageLives(t *testing.T) {
	layer.Integration(t)
	t.Parallel()
	s := newStage(t)
	starter, end := s.starter()
	folder := starter.opener.folder
	p := s.start(starter, Command{Env: s.fakeOpen()}, "opener")
	pid := s.pid("page")
	env, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	for _, without := range []string{MarkVariable, openVariable, DepthVariable, openerPrefix} {
		if strings.Contains(string(env), without+"=") && without != openerPrefix || strings.Contains(string(env), openerPrefix) {
			t.Errorf("the page has %s in its environment", without)
		}
	}
	p.stopAndClose()
	s.lives("page")
	end()
	s.lives("page")
	if _, err := os.Stat(folder); err == nil {
		t.Errorf("%s is left", folder)
	}

	killed := newStage(t)
	router := exec.Command(guardCommand()[0], "play", "router", killed.folder, "opener")
	router.Env = append(killed.fakeOpen(), "TMPDIR="+t.TempDir())
	expect.OK(t, router.Start())
	killed.pid("page")
	killed.pid("server")
	router.Process.Kill()
	router.Wait()
	killed.gone("server")
	killed.lives("page")
}

// An opener leaves nothing behind, even if no file can be opened.
func TestOpenerIsRemoved(t *testing.T) {
	layer.Integration(t)
	s := newStage(t)
	o, err := newOpener(guardCommand()[0])
	expect.OK(t, err)
	o.environment(s.fakeOpen())
	_, err = os.Readlink(filepath.Join(o.bin(), "xdg-open"))
	expect.OK(t, err)
	var before unix.Rlimit
	unix.Getrlimit(unix.RLIMIT_NOFILE, &before)
	unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 0, Max: before.Max})
	o.close()
	unix.Setrlimit(unix.RLIMIT_NOFILE, &before)
	if _, err := os.Stat(o.folder); err == nil {
		t.Errorf("%s is left", o.folder)
	}
}

// A server whose PATH has no program to open things with gets none.
func TestNoOpenerIsInvented(t *testing.T) {
	layer.Integration(t)
	t.Parallel()
	s := newStage(t)
	starter, end := s.starter()
	defer end()
	env := starter.opener.environment([]string{"PATH=" + s.folder})
	links, _ := os.ReadDir(starter.opener.bin())
	if len(links) > 0 || len(env) != 1 {
		t.Errorf("%v with %v", env, links)
	}
}

// Servers survive the death of the process guard, and end in order.
func TestServersOutliveTheGuard(t *testing.T) {
	layer.Integration(t)
	t.Parallel()
	s := newStage(t)
	starter, end := s.starter()
	p := s.start(starter, Command{}, "server", "wiped")
	s.pid("wiped")
	first := starter.GuardPID()
	syscall.Kill(first, syscall.SIGKILL)
	mcptest.WaitFor(t, "a new guard", func() bool { pid := starter.GuardPID(); return pid != first && mcptest.Alive(pid) })
	s.lives("server")
	if p.HasExited() {
		t.Error("the server counts as ended")
	}
	p.stopAndClose()
	s.gone("server")
	s.gone("wiped")
	end()
}

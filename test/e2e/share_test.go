//go:build unix

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/mcp-metarouter/metarouter/test/expect"
	"github.com/mcp-metarouter/metarouter/test/layer"
	"github.com/mcp-metarouter/metarouter/test/mcptest"
)

// host returns the id of the process that serves the clients of s, 0 without one.
func (s *setup) host() int {
	s.t.Helper()
	var hosts []int
	mcptest.WaitFor(s.t, "the shared router to start no process", func() bool { // which has its command line at first
		hosts = nil
		for pid, line := range commandLines(s.t) {
			if strings.Contains(line, s.config) && strings.Contains(line, " --host-of-clients ") {
				hosts = append(hosts, pid)
			}
		}
		return len(hosts) <= 1
	})
	if len(hosts) == 0 {
		return 0
	}
	return hosts[0]
}

// commandLines returns the command lines of all processes, by their ids.
func commandLines(t *testing.T) map[int]string {
	t.Helper()
	lines := make(map[int]string)
	if runtime.GOOS == "linux" {
		files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
		for _, file := range files {
			if text, err := os.ReadFile(file); err == nil { // else it has ended meanwhile
				pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
				lines[pid] = strings.TrimSpace(strings.ReplaceAll(string(text), "\x00", " "))
			}
		}
		return lines
	}
	out, err := exec.Command("ps", "-A", "-o", "pid=,args=").Output()
	expect.OK(t, err)
	for line := range strings.Lines(string(out)) {
		pid, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		n, _ := strconv.Atoi(pid)
		lines[n] = strings.TrimSpace(rest)
	}
	return lines
}

// kill sends a signal to the host of s, once there is one.
func (s *setup) kill(signal syscall.Signal) {
	s.t.Helper()
	pid := 0
	mcptest.WaitFor(s.t, "a shared router", func() bool {
		pid = s.host()
		return pid != 0
	})
	syscall.Kill(pid, signal)
	mcptest.WaitFor(s.t, "the router to end", func() bool { return !mcptest.Alive(pid) })
}

// logIfFailed logs what a client's process has said if the test fails.
func logIfFailed(t *testing.T, c *mcptest.Client) {
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(c.Stderr())
		}
	})
}

// Many clients of one configuration have one set of servers, which ends with the
// last of them.
func TestSharedServers(t *testing.T) {
	t.Parallel()
	const clients, servers = 5, 20
	pids := filepath.Join(t.TempDir(), "pids")
	all := entries{}
	for i := range servers {
		all[fmt.Sprintf("s%02d", i)] = fake("-tools", "pid", "-pid-file", pids)
	}
	s := prepare(t, all, map[string]any{"mode": "direct"})
	var running []*mcptest.Client
	for range clients {
		running = append(running, s.serve())
	}
	seen := make(map[string]bool)
	for _, c := range running {
		for name := range all {
			seen[mustCall(t, c, name+"__pid", "{}").text()] = true
		}
	}
	if len(seen) != servers || len(mcptest.PIDs(t, pids)) != servers {
		t.Errorf("%d clients of %d servers called %d processes, and %d were started", clients, servers, len(seen), len(mcptest.PIDs(t, pids)))
	}
	expect.OK(t, running[0].Close(), "the first client's leaving: %s", running[0].Stderr())
	running[1].Cmd.Process.Kill()
	<-running[1].Done
	mustCall(t, running[2], "s00__pid", "{}")
	for _, c := range running[2:] {
		expect.OK(t, c.Close(), "a client's leaving: %s", c.Stderr())
	}
	for _, pid := range mcptest.PIDs(t, pids) { // the last client waits until they are
		if mcptest.Alive(pid) {
			t.Errorf("process %d is alive", pid)
		}
	}
	expect.Equal(t, s.host(), 0, "the shared router … is alive")
}

// One router serves all clients of a configuration, whatever their folders, variables and flags, and each as it wishes to
// see it. Where a server gets a variable in which clients differ, that server alone has a process for each value.
func TestClientsShareOneRouter(t *testing.T) {
	t.Parallel()
	s := prepare(t, entries{
		"s":      fake("-tools", "pid,env,cwd"),
		"x":      map[string]any{"command": fake()["command"], "args": fake("-tools", "pid,env")["args"], "env": map[string]string{"X": "${E2E_X:-0}"}},
		"folder": map[string]any{"command": fake()["command"], "args": fake("-tools", "pid,cwd")["args"], "cwd": "client"},
	}, map[string]any{"mode": "direct", "profiles": map[string]any{"all": map[string]any{}}})
	serve := func(dir string, variables []string, args ...string) *mcptest.Client {
		t.Helper()
		c := mcptest.Start(t, metarouter, s.command(append([]string{"serve"}, args...)...), dir, append(append(os.Environ(), "SHELL=/bin/sh"), variables...))
		_, err := c.Initialize(within(t))
		expect.OK(t, err, "initialize: %s", c.Stderr())
		return c
	}
	pid := func(c *mcptest.Client, server string) string {
		t.Helper()
		return mustCallWhenUp(t, c, server+":pid").text()
	}
	first := serve(s.dir, []string{"LANG=de_DE.UTF-8"})
	here, home := pid(first, "s"), t.TempDir()
	others := map[string]*mcptest.Client{
		"another folder":  serve(home, nil),
		"another PATH":    serve(s.dir, []string{"PATH=/nonexistent:/usr/bin"}),
		"another locale":  serve(s.dir, []string{"LANG=sv_SE.UTF-8"}),
		"another mode":    serve(s.dir, nil, "--mode", "search"),
		"another profile": serve(s.dir, nil, "--profile", "all"),
		"debug":           serve(s.dir, nil, "--log-level", "debug"),
	}
	for name, c := range others {
		expect.Equal(t, pid(c, "s"), here, "%s: it is not shared", name)
		expect.Equal(t, pid(c, "x"), pid(first, "x"), "%s: the server has another process", name)
	}
	if tools := names(t, others["another mode"]); slices.Contains(tools, "s__pid") || !slices.Contains(names(t, first), "s__pid") {
		t.Errorf("in mode search the tools are %q", tools)
	}
	if got := mustCall(t, first, "s__env", "{}").text(); strings.Contains(got, "de_DE") {
		t.Errorf("the server has the first client's LANG: %s", got)
	}
	expect.Equal(t, mustCall(t, others["another folder"], "s__cwd", "{}").text(), s.dir, "the folder of the server")

	one, two := serve(s.dir, []string{"E2E_X=1"}), serve(s.dir, []string{"E2E_X=1"})
	if pid(one, "s") != here || pid(one, "x") == pid(first, "x") || pid(one, "x") != pid(two, "x") {
		t.Error("clients with another value of a variable do not share a process of that server alone")
	}
	for c, want := range map[*mcptest.Client]string{first: "0", one: "1"} {
		if got := mustCall(t, c, "x__env", "{}").text(); !strings.Contains("\n"+got+"\n", "\nX="+want+"\n") {
			t.Errorf("X is not %s: %s", want, got)
		}
	}
	expect.Equal(t, mustCall(t, others["another folder"], "folder__cwd", "{}").text(), home, "the folder of a server with \"cwd\": \"client\"")
	if out, _, _ := s.run("servers"); !strings.Contains(out, "clients differ in E2E_X") || !strings.Contains(out, "the folder of the client, "+home) {
		t.Errorf("servers does not say why there are more processes:\n%s", out)
	}
	if alone := serve(s.dir, nil, "--standalone"); pid(alone, "s") == here {
		t.Error("a router of its own is shared")
	}
	gone, _ := strconv.Atoi(pid(one, "x"))
	for _, c := range []*mcptest.Client{one, two} {
		expect.OK(t, c.Close(), "leaving: %s", c.Stderr())
	}
	mcptest.WaitFor(t, "the end of the process for both", func() bool { return !mcptest.Alive(gone) })
	expect.Equal(t, pid(first, "s"), here, "the router has ended with some of its clients")
}

// A client that comes after an edit shares with those that were there before.
func TestSharedAfterAnEdit(t *testing.T) {
	layer.Full(t)
	t.Parallel()
	own := map[string]any{"mode": "direct"}
	s := prepare(t, entries{"s": fake("-tools", "pid")}, own)
	before := mustCall(t, s.serve(), "s__pid", "{}").text()
	s.write(entries{"s": fake("-tools", "pid", "-name", "edited")}, own)
	at := s.serve() // while the edit is being read
	var edited string
	mcptest.WaitFor(t, "the edited server to take the old one's place", func() bool {
		edited = mustCall(t, at, "s__pid", "{}").text()
		return edited != before
	})
	later := mustCall(t, s.serve(), "s__pid", "{}").text()
	out, stderr, code := s.run("call", "s:pid")
	if later != edited || strings.TrimSpace(out) != edited || code != 0 {
		t.Errorf("before the edit %s, at it %s, later %s, and call says %s%s", before, edited, later, out, stderr)
	}
}

// When the shared router is killed, each call that it was carrying out and that must not be repeated
// gets an error that says so, and all clients go on with another, as if nothing had been.
func TestSharedRouterIsKilled(t *testing.T) {
	t.Parallel()
	pids, trace := filepath.Join(t.TempDir(), "pids"), filepath.Join(t.TempDir(), "trace")
	once := fake("-tools", "sleep", "-pid-file", pids, "-trace", trace)
	once["retry"] = "never"
	s := prepare(t, entries{"s": fake("-tools", "echo,pid", "-pid-file", pids), "once": once}, map[string]any{"mode": "direct"})
	clients := []*mcptest.Client{s.serve(), s.serve(), s.serve()}
	for round := range 3 {
		var calls sync.WaitGroup
		for i, c := range clients {
			before := mustCall(t, c, "s__pid", "{}").text()
			calls.Go(func() {
				_, err := c.Call(within(t), "once__sleep", json.RawMessage(`{"ms":600000}`))
				expect.Error(t, err, "the router ended while the request was under way", "client %d, round %d: the call in flight: %s", i, round, c.Stderr())
				if after := mustCall(t, c, "s__pid", "{}").text(); after == before {
					t.Errorf("client %d: the server has outlived its router", i)
				}
			})
		}
		mcptest.WaitFor(t, "the calls in flight", func() bool { return count(trace, `"ms":600000`) == len(clients)*(round+1) })
		kill := syscall.SIGKILL
		if round == 1 {
			kill = syscall.SIGTERM
		}
		s.kill(kill)
		calls.Wait()
		for _, c := range clients {
			expect.Contains(t, mustCall(t, c, "s__echo", `{"text":"after"}`).text(), "after", "echo after")
			if c.Stray() > 0 {
				t.Errorf("%d lines are no messages", c.Stray())
			}
		}
	}
	for _, c := range clients {
		expect.OK(t, c.Close(), "leaving: %s", c.Stderr())
	}
	mcptest.Gone(t, pids, 6)
}

// The process of a client that is killed takes nothing with it, and the last one
// all, at once, as if the router itself were killed.
func TestLastClientIsKilled(t *testing.T) {
	t.Parallel()
	pids := filepath.Join(t.TempDir(), "pids")
	s := prepare(t, entries{"deaf": fake("-tools", "echo", "-ignore-eof", "-ignore-term", "-pid-file", pids)}, nil)
	one, two := s.serve(), s.serve()
	mustCallWhenUp(t, one, "deaf:echo")
	one.Cmd.Process.Kill()
	<-one.Done
	mustCallWhenUp(t, two, "deaf:echo")
	began := time.Now()
	two.Cmd.Process.Kill()
	<-two.Done
	mcptest.Gone(t, pids, 1)
	t.Logf("gone after %v", time.Since(began))
	mcptest.WaitFor(t, "the router to end", func() bool { return s.host() == 0 })
}

// A router that was started for a client which never came ends by itself, and what
// is in the way of sharing leaves the client with a router of its own.
func TestCannotShare(t *testing.T) {
	t.Parallel()
	s := prepare(t, entries{"s": fake("-tools", "echo")}, nil)
	run := filepath.Join(s.dir, "data", "run")
	expect.OK(t, os.MkdirAll(run, 0o777))
	expect.OK(t, os.Chmod(run, 0o777)) // open to other users, so the router must not listen there
	c := s.serve()
	mustCallWhenUp(t, c, "s:echo")
	expect.Equal(t, s.host(), 0, "a router is shared")
	expect.Contains(t, c.Stderr(), "open to others", "stderr")
}

// The shared router keeps nothing of clients that have left.
func TestSharedRouterForgets(t *testing.T) {
	layer.Full(t)
	if runtime.GOOS != "linux" {
		t.Skip("open files are counted in /proc")
	}
	t.Parallel()
	s := prepare(t, entries{"s": fake("-tools", "echo")}, map[string]any{"mode": "direct"})
	first := s.serve("--debug") // else its files can't be counted
	mustCall(t, first, "s__echo", `{}`)
	visit := func() {
		c := s.serve()
		mustCall(t, c, "s__echo", `{}`)
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
	visit()
	host := s.host()
	before := openFiles(t, host)
	for range 10 {
		visit()
	}
	mcptest.WaitFor(t, "as many open files as before", func() bool { return openFiles(t, host) <= before })
	mustCall(t, first, "s__echo", `{}`)
}

// A new build of the program takes over: clients of the old router come to the new one, each once its calls have ended.
func TestSharedAfterAnUpgrade(t *testing.T) {
	t.Parallel()
	trace := filepath.Join(t.TempDir(), "trace")
	s := prepare(t, entries{"s": fake("-tools", "pid,hang", "-trace", trace)}, map[string]any{"mode": "direct"})
	program := filepath.Join(s.dir, "metarouter")
	install := func() {
		t.Helper()
		text, err := os.ReadFile(metarouter)
		expect.OK(t, err)
		// A child of another test that is forked meanwhile has the file open until it
		// executes, and what is open for writing can't be executed ("text file busy").
		syscall.ForkLock.RLock()
		err = os.WriteFile(program+".new", text, 0o700)
		syscall.ForkLock.RUnlock()
		expect.OK(t, err)
		expect.OK(t, os.Rename(program+".new", program))
	}
	serve := func() *mcptest.Client {
		t.Helper()
		c := mcptest.Start(t, program, s.command("serve"), s.dir, nil)
		_, err := c.Initialize(within(t))
		expect.OK(t, err, "initialize: %s", c.Stderr())
		return c
	}
	install()
	before, idle := serve(), serve()
	first := mustCall(t, before, "s__pid", "{}").text()
	mustCall(t, idle, "s__pid", "{}")
	long, cancel := context.WithCancel(within(t))
	call := make(chan error, 1)
	go func() {
		_, err := before.Call(long, "s__hang", json.RawMessage("{}"))
		call <- err
	}()
	mcptest.WaitFor(t, "the call", func() bool { return count(trace, `"hang"`) == 1 })
	install()
	after := serve()
	next := mustCall(t, after, "s__pid", "{}").text()
	if next == first {
		t.Error("the new build is served by the old one")
	}
	mcptest.WaitFor(t, "the client without a call to come to the new router", func() bool { return mustCall(t, idle, "s__pid", "{}").text() == next })
	expect.Equal(t, mustCall(t, before, "s__pid", "{}").text(), first, "a client with a call under way has left its router")
	cancel()
	if err := <-call; !errors.Is(err, context.Canceled) {
		t.Errorf("the call under way: %v", err)
	}
	mcptest.WaitFor(t, "the client with the call to come to the new router", func() bool { return mustCall(t, before, "s__pid", "{}").text() == next })
	mcptest.WaitFor(t, "the end of the old router", func() bool { return s.host() != 0 })
	for _, c := range []*mcptest.Client{before, idle, after} {
		expect.Equal(t, strings.Contains(c.Stderr(), "WARN"), false, "the client's log: %s", c.Stderr())
		expect.OK(t, c.Close(), "leaving: %s", c.Stderr())
	}
}

// Containers may have the same paths for different things.
func TestSharedInOneContainer(t *testing.T) {
	layer.Full(t)
	if exec.Command("unshare", "--mount", "true").Run() != nil {
		t.Skip("can't make a container")
	}
	t.Parallel()
	s := prepare(t, entries{"s": fake("-tools", "pid")}, map[string]any{"mode": "direct"})
	first := mustCall(t, s.serve(), "s__pid", "{}").text()
	c := mcptest.Start(t, "unshare", append([]string{"--mount", metarouter}, s.command("serve")...), s.dir, nil)
	_, err := c.Initialize(within(t))
	expect.OK(t, err, "initialize: %s", c.Stderr())
	if mustCall(t, c, "s__pid", "{}").text() == first {
		t.Error("a router of another container is shared")
	}
}

// Files that the first client's process was started with are not kept open by the
// router, which outlives it.
func TestSharedRouterKeepsNoFiles(t *testing.T) {
	layer.Full(t)
	t.Parallel()
	s := prepare(t, entries{"s": fake("-tools", "echo")}, map[string]any{"mode": "direct"})
	fifo := filepath.Join(s.dir, "fifo")
	expect.OK(t, syscall.Mkfifo(fifo, 0o600))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		os.ReadFile(fifo)
	}()
	first := mcptest.Start(t, "sh", append([]string{"-c", `exec 7>"$0"; exec "$@"`, fifo, metarouter}, s.command("serve")...), s.dir, nil)
	_, err := first.Initialize(within(t))
	expect.OK(t, err, "initialize: %s", first.Stderr())
	other := s.serve()
	expect.OK(t, first.Close(), "leaving: %s", first.Stderr())
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Error("somebody keeps the first client's file open")
	}
	mustCall(t, other, "s__echo", `{}`)
}

// A client's process that is told to end while it starts a router ends in order, and
// the router with it.
func TestEndWhileARouterStarts(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the router is found in /proc as soon as it is there")
	}
	t.Parallel()
	s := prepare(t, entries{"s": fake("-tools", "echo")}, map[string]any{"mode": "direct"})
	c := s.start()
	var pid int
	for began := time.Now(); pid == 0 && time.Since(began) < time.Minute; {
		tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", c.Cmd.Process.Pid))
		for _, task := range tasks {
			if text, _ := os.ReadFile(task); len(text) > 0 {
				pid, _ = strconv.Atoi(strings.Fields(string(text))[0])
			}
		}
	}
	if pid == 0 {
		t.Fatal("no router is started")
	}
	syscall.Kill(pid, syscall.SIGSTOP)
	c.Cmd.Process.Signal(syscall.SIGTERM)
	time.Sleep(100 * time.Millisecond)
	syscall.Kill(pid, syscall.SIGCONT)
	<-c.Done
	expect.Equal(t, c.Cmd.ProcessState.ExitCode(), 0, "exit code …\n%s", c.Stderr())
	for limit := time.Now().Add(15 * time.Second); mcptest.Alive(pid); time.Sleep(10 * time.Millisecond) { // without a client, it ends after 20 s
		if time.Now().After(limit) {
			t.Fatal("the router goes on")
		}
	}
}

// A client's process with a stderr that stays unread goes on when the router is killed, and
// servers get signals as usual.
func TestBrokenPipes(t *testing.T) {
	layer.Full(t)
	if runtime.GOOS != "linux" {
		t.Skip("signals that are ignored are read in /proc")
	}
	t.Parallel()
	command, args := mcptest.Command("-tools", "echo")
	ignored := filepath.Join(t.TempDir(), "ignored")
	s := prepare(t, entries{"s": {"command": "sh", "args": append([]string{"-c", `grep SigIgn /proc/$$/status > "$0"; exec "$@"`, ignored, command}, args...)}}, map[string]any{"mode": "direct"})
	c := mcptest.Start(t, "bash", append([]string{"-c", `exec "$0" "$@" 2> >(exec true)`, metarouter}, s.command("serve")...), s.dir, nil)
	_, err := c.Initialize(within(t))
	expect.OK(t, err, "initialize")
	mustCall(t, c, "s__echo", `{}`)
	text, err := os.ReadFile(ignored)
	expect.OK(t, err)
	mask, err := strconv.ParseUint(strings.Fields(string(text))[1], 16, 64)
	if err != nil || mask&(1<<(syscall.SIGPIPE-1)) != 0 {
		t.Errorf("%v: the server ignores SIGPIPE: %s", err, text)
	}
	s.kill(syscall.SIGKILL)
	mustCall(t, c, "s__echo", `{}`)
}

// The last client's process waits until servers that take their time have ended in order.
func TestLastClientWaits(t *testing.T) {
	layer.Full(t)
	t.Parallel()
	command, args := mcptest.Command("-tools", "echo")
	ended := filepath.Join(t.TempDir(), "ended")
	s := prepare(t, entries{"s": {"command": "sh", "args": append([]string{"-c", `trap "" TERM; "$@"; sleep 0.5; echo ended > "$0"`, ended, command}, args...)}}, nil)
	c := s.serve()
	mustCallWhenUp(t, c, "s:echo")
	expect.OK(t, c.Close(), "leaving: %s", c.Stderr())
	_, err := os.Stat(ended)
	expect.OK(t, err, "the server was killed")
}

// Clients over HTTP and over stdio share the servers, whichever came first.
func TestHTTPAndStdioShare(t *testing.T) {
	t.Parallel()
	s := prepare(t, entries{"s": fake("-tools", "pid")}, map[string]any{"mode": "direct"})
	c := s.serve()
	before := mustCall(t, c, "s__pid", "{}").text()
	_, web := s.serveHTTP()
	logIfFailed(t, c)
	logIfFailed(t, web)
	over := before
	mcptest.WaitFor(t, "the router over HTTP to answer commands", func() bool {
		out, _, _ := s.run("call", "s:pid")
		over = strings.TrimSpace(out)
		return over != before && over != ""
	})
	mcptest.WaitFor(t, "the client over stdio to come to the router over HTTP", func() bool { return mustCall(t, c, "s__pid", "{}").text() == over })
	if later := s.serve(); over == before || mustCall(t, later, "s__pid", "{}").text() != over {
		t.Error("a later client has servers of its own")
	}
	mcptest.WaitFor(t, "the end of the router that only served clients over stdio", func() bool { return s.host() == 0 })
	web.Cmd.Process.Signal(syscall.SIGTERM)
	<-web.Done
	if after := mustCallWhenUp(t, c, "s:pid").text(); after == over {
		t.Error("the server has outlived its router")
	}
}

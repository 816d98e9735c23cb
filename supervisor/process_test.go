//go:build unix

package supervisor

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/mcptest"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/session"
)

// The test binary plays the fake server, the guard, npm's shell, and a router that
// is to be killed.
func TestMain(m *testing.M) {
	if os.Getenv(ReportVariable) != "" {
		if err := Report(os.Stdout, os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	mcptest.ServeIfAsked()
	if len(os.Args) > 1 && os.Args[1] == "guard" {
		if len(os.Args) > 2 {
			fmt.Fprintln(os.Stderr, Gate(os.Args[3:]))
			os.Exit(1)
		}
		Guard(os.Stdin)
		os.Exit(0)
	}
	if len(os.Args) > 1 && os.Args[1] == "router" {
		beRouter(os.Args[2:])
	}
	flag.Parse()
	flag.Set("test.parallel", "8") // the tests mostly wait for processes
	goleak.VerifyTestMain(m)
}

// A learner is a handler that lists the tools once a session is up.
type learner struct {
	mu      sync.Mutex
	learned map[string]int // listings by server
	tools   map[string]string
	known   map[string]bool
}

func (l *learner) Learn(ctx context.Context, entry config.Server, s session.Session) error {
	raw, err := s.Call(ctx, session.Request{Method: "tools/list", Params: json.RawMessage("{}")})
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.learned[entry.Name]++
	l.tools[entry.Name] = string(raw)
	return nil
}

func (l *learner) Known(entry config.Server) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.known[entry.Name]
}

func (l *learner) Forget(server string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.tools, server)
}

func (l *learner) listings(server string) (int, string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.learned[server], l.tools[server]
}

// A fixture is a running supervisor.
type fixture struct {
	*Supervisor
	*learner
	t       *testing.T
	data    string
	configs chan config.Config
	stop    func()
}

func guardCommand() []string {
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return []string{self, "guard"}
}

// supervise runs a supervisor of the entries until the test ends.
func supervise(t *testing.T, entries ...config.Server) *fixture {
	t.Helper()
	return superviseIn(t, t.TempDir(), entries...)
}

func superviseIn(t *testing.T, data string, entries ...config.Server) *fixture {
	t.Helper()
	log := zaptest.NewLogger(t, zaptest.Level(zap.DebugLevel))
	l := &learner{learned: make(map[string]int), tools: make(map[string]string), known: make(map[string]bool)}
	f := &fixture{t: t, learner: l, data: data, configs: make(chan config.Config)}
	f.Supervisor = New(l, Options{DataDir: data, Guard: guardCommand(), Reporter: guardCommand()[0], Version: "test"}, log)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- f.Run(ctx, f.configs) }()
	f.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	t.Cleanup(f.stop)
	f.apply(entries...)
	return f
}

func (f *fixture) apply(entries ...config.Server) { f.configs <- config.Config{Servers: entries} }

// fake returns an entry whose server is the fake one.
func fake(name string, flags ...string) config.Server {
	command, args := mcptest.Command(append([]string{"-name", name}, flags...)...)
	return config.Server{Name: name, Transport: config.Stdio, Command: command, Args: args, StartTimeout: 30 * time.Second}
}

func (f *fixture) state(name string) Status {
	for _, s := range f.Status() {
		if s.Name == name {
			return s
		}
	}
	return Status{}
}

func (f *fixture) await(name string, state State) Status {
	f.t.Helper()
	mcptest.WaitFor(f.t, fmt.Sprintf("%s to be %s", name, state), func() bool { return f.state(name).State == state })
	return f.state(name)
}

// call calls a tool and returns its first text.
func (f *fixture) call(server, tool, arguments string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	s, err := f.Session(ctx, server, nil)
	if err != nil {
		return "", err
	}
	raw, err := s.Call(ctx, session.Request{Method: "tools/call", Params: fmt.Appendf(nil, `{"name":%q,"arguments":%s}`, tool, arguments)})
	if err != nil {
		return "", err
	}
	var r struct{ Content []struct{ Text string } }
	if err := json.Unmarshal(raw, &r); err != nil || len(r.Content) == 0 {
		return string(raw), err
	}
	return r.Content[0].Text, nil
}

func (f *fixture) mustCall(server, tool, arguments string) string {
	f.t.Helper()
	text, err := f.call(server, tool, arguments)
	if err != nil {
		f.t.Fatalf("call %s of %s: %v", tool, server, err)
	}
	return text
}

func pidFile(t *testing.T) string { return filepath.Join(t.TempDir(), "pids") }

func TestServeAndStop(t *testing.T) {
	t.Parallel()
	pids := pidFile(t)
	f := supervise(t, fake("a", "-tools", "echo,pid", "-pid-file", pids), fake("b", "-era", "modern", "-pid-file", pids))
	if got := f.mustCall("b", "echo", `{"x":1}`); !strings.Contains(got, `"x":1`) {
		t.Errorf("echo answered %s", got)
	}
	a, b := f.await("a", Ready), f.await("b", Ready)
	if a.Era != "legacy" || b.Era != "modern" || a.PID == 0 || f.mustCall("a", "pid", "{}") != fmt.Sprint(a.PID) {
		t.Errorf("status %+v and %+v", a, b)
	}
	f.stop()
	for _, pid := range mcptest.PIDs(t, pids) {
		if mcptest.Alive(pid) {
			t.Errorf("process %d is alive after Run has returned", pid)
		}
	}
}

func TestFailsWithReasonOthersServe(t *testing.T) {
	t.Parallel()
	f := supervise(t, fake("bad", "-exit"), fake("good"))
	f.mustCall("good", "echo", "{}")
	st := f.await("bad", Failed)
	if !strings.Contains(st.LastError, "status 3") || !strings.Contains(st.LastError, "stderr") || len(st.Stderr) == 0 {
		t.Errorf("last error %q, stderr %q", st.LastError, st.Stderr)
	}
	_, err := f.call("bad", "echo", "{}")
	var unavailable *UnavailableError
	if !errors.As(err, &unavailable) || unavailable.State != Failed || !errors.Is(err, session.ErrNotSent) || !strings.Contains(err.Error(), `"bad"`) {
		t.Errorf("a call to a failed server: %v", err)
	}
	if log, err := os.ReadFile(filepath.Join(f.data, "logs", "bad.log")); err != nil || len(log) == 0 {
		t.Errorf("log of its stderr: %q, %v", log, err)
	}
}

func TestFailedServerComesBackByRestart(t *testing.T) {
	t.Parallel()
	state := filepath.Join(t.TempDir(), "starts")
	f := supervise(t, fake("s", "-crash-at-start-times", "12", "-exit-on-unknown", "-state", state))
	f.await("s", Failed)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for f.Restart(ctx, "s") != nil && ctx.Err() == nil {
	}
	if st := f.state("s"); st.State != Ready || st.Restarts == 0 {
		t.Errorf("after restart: %+v", st)
	}
}

func TestCommandNotFound(t *testing.T) {
	t.Parallel()
	f := supervise(t, config.Server{Name: "s", Transport: config.Stdio, Command: "no-such-program-anywhere", StartTimeout: time.Minute})
	if st := f.await("s", Failed); !strings.Contains(st.LastError, `"no-such-program-anywhere" is not on PATH`) {
		t.Errorf("last error %q", st.LastError)
	}
}

func TestExitsAtProbe(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	for _, want := range []int{2, 3} { // a second process the first time, none after that
		pids := filepath.Join(data, "pids")
		f := superviseIn(t, data, fake("s", "-exit-on-unknown", "-pid-file", pids))
		if st := f.await("s", Ready); st.Era != "legacy" {
			t.Errorf("status %+v", st)
		}
		f.stop()
		if n := len(mcptest.PIDs(t, pids)); n != want {
			t.Errorf("%d processes so far, want %d", n, want)
		}
	}
}

func TestMuteServerTimesOut(t *testing.T) {
	t.Parallel()
	mute := fake("mute", "-mute")
	mute.StartTimeout = 300 * time.Millisecond
	f := supervise(t, mute, fake("good"))
	f.mustCall("good", "echo", "{}")
	if st := f.await("mute", Failed); !strings.Contains(st.LastError, "not ready within 300ms") {
		t.Errorf("last error %q", st.LastError)
	}
}

func TestNoiseAndFlood(t *testing.T) {
	t.Parallel()
	f := supervise(t, fake("noisy", "-noise"), fake("flood", "-stderr-flood", "10000000"))
	for range 3 {
		f.mustCall("noisy", "echo", "{}")
		f.mustCall("flood", "echo", "{}")
	}
	if st := f.state("noisy"); st.StrayLines < 3 {
		t.Errorf("%d stray lines counted", st.StrayLines)
	}
	if st := f.state("flood"); len(st.Stderr) == 0 {
		t.Error("nothing kept of stderr")
	}
}

// Messages far above the 16 MiB at which the SDK's transport ends are passed on.
func TestLargeMessages(t *testing.T) {
	t.Parallel()
	f := supervise(t, fake("s", "-tools", "big,echo"))
	const size = 40 << 20
	if got := f.mustCall("s", "big", fmt.Sprintf(`{"bytes":%d}`, size)); len(got) != size {
		t.Errorf("a result of %d bytes, want %d", len(got), size)
	}
	argument := strings.Repeat("x", 20<<20)
	if got := f.mustCall("s", "echo", `{"message":"`+argument+`"}`); !strings.Contains(got, argument) {
		t.Errorf("an echo of %d bytes, want %d", len(got), len(argument))
	}
}

func TestHangingCallHarmsNoOther(t *testing.T) {
	t.Parallel()
	f := supervise(t, fake("s", "-tools", "hang,echo"))
	s, err := f.Session(t.Context(), "s", nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	hung := make(chan error, 1)
	go func() {
		_, err := s.Call(ctx, session.Request{Method: "tools/call", Params: json.RawMessage(`{"name":"hang"}`)})
		hung <- err
	}()
	f.mustCall("s", "echo", "{}")
	cancel()
	if err := <-hung; !errors.Is(err, context.Canceled) {
		t.Errorf("the cancelled call: %v", err)
	}
	f.mustCall("s", "echo", "{}")
}

func TestCrashInCall(t *testing.T) {
	t.Parallel()
	f := supervise(t, fake("s", "-tools", "crash,pid"))
	before := f.mustCall("s", "pid", "{}")
	_, err := f.call("s", "crash", "{}")
	if !errors.Is(err, session.ErrClosed) || !strings.Contains(err.Error(), "exited with status") {
		t.Errorf("the call under way: %v", err)
	}
	if after := f.mustCall("s", "pid", "{}"); after == before {
		t.Error("the same process after a crash")
	}
	if st := f.state("s"); st.Restarts != 1 || !strings.Contains(st.LastError, "exited") {
		t.Errorf("status %+v", st)
	}
}

func TestStubbornServersAndTheirChildren(t *testing.T) {
	t.Parallel()
	pids := pidFile(t)
	f := supervise(t,
		fake("stubborn", "-ignore-eof", "-ignore-term", "-pid-file", pids),
		fake("parent", "-grandchild", "-grandchild-setsid", "-pid-file", pids),
		fake("crasher", "-tools", "crash", "-grandchild", "-grandchild-setsid", "-pid-file", pids),
	)
	for _, name := range []string{"stubborn", "parent", "crasher"} {
		f.await(name, Ready)
	}
	first := mcptest.PIDs(t, pids)
	f.call("crasher", "crash", "{}")
	mcptest.WaitFor(t, "the crashed server to be back", func() bool { return f.state("crasher").Restarts == 1 && f.state("crasher").State == Ready })
	crashed := 0
	mcptest.WaitFor(t, "what the crashed server left to be gone", func() bool {
		crashed = 0
		for _, pid := range first {
			if !mcptest.Alive(pid) {
				crashed++
			}
		}
		return crashed == 3
	})
	f.stop()
	mcptest.Gone(t, pids, 10)
}

func TestToolsChange(t *testing.T) {
	t.Parallel()
	for _, era := range []string{"legacy", "modern"} {
		f := supervise(t, fake("s", "-tools", "grow", "-era", era))
		f.mustCall("s", "grow", "{}")
		mcptest.WaitFor(t, era+": the changed tools to be listed", func() bool {
			n, tools := f.listings("s")
			return n >= 2 && strings.Count(tools, `"inputSchema"`) == 2
		})
	}
}

func TestEnvironment(t *testing.T) {
	t.Setenv("SECRET_OF_ANOTHER", "x")
	t.Setenv("INHERITED", "yes")
	t.Setenv("HTTPS_PROXY", "http://proxy")
	entry := fake("s", "-tools", "env,cwd")
	entry.Env = map[string]string{"OWN": "1", DepthVariable: "7", "npm_config_@scope:registry": "x", "a.b": "y"}
	entry.InheritEnv = []string{"INHERITED"}
	entry.Cwd = t.TempDir()
	f := supervise(t, entry)
	env := f.mustCall("s", "env", "{}")
	for _, want := range []string{"OWN=1", "npm_config_@scope:registry=x", "a.b=y", "INHERITED=yes", "HTTPS_PROXY=http://proxy", "PATH=", "HOME=", DepthVariable + "=1", markVariable + "="} {
		if !strings.Contains(env, want) {
			t.Errorf("%s is missing from the environment", want)
		}
	}
	if strings.Contains(env, "SECRET_OF_ANOTHER") {
		t.Error("the server got a variable that its entry does not name")
	}
	if got := f.mustCall("s", "cwd", "{}"); got != entry.Cwd {
		t.Errorf("working directory %s, want %s", got, entry.Cwd)
	}
}

func TestEdit(t *testing.T) {
	t.Parallel()
	a, b := fake("a", "-tools", "pid,sleep"), fake("b", "-tools", "pid")
	f := supervise(t, a, b)
	pidA, pidB := f.mustCall("a", "pid", "{}"), f.mustCall("b", "pid", "{}")

	// A call under way ends on the old process, while the new one takes over.
	slow := make(chan error, 1)
	go func() {
		_, err := f.call("a", "sleep", `{"ms":1500}`)
		slow <- err
	}()
	mcptest.WaitFor(t, "the slow call to be under way", func() bool {
		s, err := f.Session(t.Context(), "a", nil)
		return err == nil && !isClosed(s.(*instance).quiet())
	})
	edited := a
	edited.Env = map[string]string{"X": "1"}
	f.apply(edited, b)
	mcptest.WaitFor(t, "the edited server to take over", func() bool { return fmt.Sprint(f.state("a").PID) != pidA })
	if got := f.mustCall("b", "pid", "{}"); got != pidB {
		t.Error("an edit of one server restarted another")
	}
	if err := <-slow; err != nil {
		t.Errorf("the call under way during the edit: %v", err)
	}

	// What does not concern the process leaves it alone.
	pidA = f.mustCall("a", "pid", "{}")
	edited.Timeout = time.Minute
	f.apply(edited, b)
	mcptest.WaitFor(t, "the tools to be listed by the new rules", func() bool { n, _ := f.listings("a"); return n >= 3 })
	if got := f.mustCall("a", "pid", "{}"); got != pidA {
		t.Error("an edit of the time-out restarted the server")
	}

	// A removed server drains.
	go func() {
		_, err := f.call("a", "sleep", `{"ms":1000}`)
		slow <- err
	}()
	mcptest.WaitFor(t, "the slow call to be under way", func() bool {
		s, err := f.Session(t.Context(), "a", nil)
		return err == nil && !isClosed(s.(*instance).quiet())
	})
	f.apply(b)
	if err := <-slow; err != nil {
		t.Errorf("the call under way during the removal: %v", err)
	}
	if _, err := f.call("a", "pid", "{}"); err == nil || !strings.Contains(err.Error(), "no server") {
		t.Errorf("a call to a removed server: %v", err)
	}
}

func TestEditOfExclusiveServer(t *testing.T) {
	t.Parallel()
	lock := filepath.Join(t.TempDir(), "port")
	f := supervise(t, fake("s", "-exclusive", lock, "-tools", "pid"))
	before := f.mustCall("s", "pid", "{}")
	f.apply(fake("s", "-exclusive", lock, "-tools", "pid,echo"))
	mcptest.WaitFor(t, "the edited server to run alone", func() bool {
		_, tools := f.listings("s")
		return strings.Contains(tools, "echo")
	})
	if after := f.mustCall("s", "pid", "{}"); after == before {
		t.Error("the old process still serves")
	}
}

func TestEditThatDoesNotStart(t *testing.T) {
	t.Parallel()
	good := fake("s", "-tools", "pid")
	f := supervise(t, good, fake("keyed"))
	f.await("s", Ready)
	f.await("keyed", Ready)
	leaked := fake("keyed", "-exit")
	leaked.Env = map[string]string{"KEY": "new"}
	f.apply(fake("s", "-exit"), leaked)
	mcptest.WaitFor(t, "the entry before the edit to run again", func() bool {
		return strings.Contains(f.state("s").LastError, "the edited entry does not start")
	})
	f.mustCall("s", "pid", "{}")
	f.await("keyed", Failed) // a withdrawn key is not used again
	f.apply(fake("s", "-tools", "pid", "-version", "2"))
	mcptest.WaitFor(t, "the next edit to be used", func() bool { st := f.state("s"); return st.State == Ready && st.LastError == "" })
}

func TestLazy(t *testing.T) {
	t.Parallel()
	pids := pidFile(t)
	lazy := fake("s", "-pid-file", pids)
	lazy.Lazy = true
	f := supervise(t)
	f.known["s"] = true
	f.apply(lazy)
	f.await("s", Idle)
	if n := len(mcptest.PIDs(t, pids)); n != 0 {
		t.Errorf("%d processes before the first call", n)
	}
	f.mustCall("s", "echo", "{}")
}

// A server that nobody uses is stopped, and started again by the next call. No
// call is lost by that, and none under way is cut short.
func TestIdleTimeout(t *testing.T) {
	t.Parallel()
	entry := fake("s", "-tools", "echo,sleep")
	entry.IdleTimeout = 30 * time.Millisecond
	f := supervise(t)
	f.known["s"] = true
	f.apply(entry)
	f.await("s", Idle)
	before := f.spawned.Load()
	if st := f.state("s"); st.PID != 0 || before != 1 {
		t.Errorf("%d processes were started; %+v", before, st)
	}
	f.mustCall("s", "sleep", `{"ms":300}`)
	if n := f.spawned.Load(); n != before+1 {
		t.Errorf("the call took %d starts", n-before)
	}
	for i := range 8 { // some of them at the moment of the stop
		if _, err := f.call("s", "echo", "{}"); err != nil && !errors.Is(err, session.ErrNotSent) {
			t.Fatalf("lost: %v", err)
		} // what was not sent is sent anew by whoever calls
		time.Sleep(28*time.Millisecond + time.Duration(i)*500*time.Microsecond)
	}
	f.await("s", Idle)
	entry.IdleTimeout = 0
	f.apply(entry)
	f.await("s", Ready)
}

// Calls that wake a server together do not wake it again when it is idle.
func TestIdleServerIsWokenOnce(t *testing.T) {
	t.Parallel()
	entry := fake("s", "-tools", "echo")
	entry.Lazy, entry.IdleTimeout = true, 30*time.Millisecond
	f := supervise(t)
	f.known["s"] = true
	f.apply(entry)
	f.await("s", Idle)
	f.mustCall("s", "echo", "{}")
	f.Supervisor.mu.Lock()
	s := f.servers["s"]
	f.Supervisor.mu.Unlock()
	s.mu.Lock()
	in := s.latest
	s.mu.Unlock()
	notify(s.woken) // as a call does that saw it idle just before
	<-in.done
	time.Sleep(10 * entry.IdleTimeout)
	if n := f.spawned.Load(); n != 1 {
		t.Errorf("one call took %d starts", n)
	}
}

// A server that nothing was sent to for longer than a call may take is no worse for
// it.
func TestLongSilence(t *testing.T) {
	t.Parallel()
	entry := fake("s", "-tools", "echo")
	entry.Timeout = time.Second
	f := supervise(t, entry)
	before := f.await("s", Ready)
	s, err := f.Session(t.Context(), "s", nil)
	if err != nil {
		t.Fatal(err)
	}
	more := fmt.Appendf(nil, `{"x":%q}`, strings.Repeat("x", 3<<20)) // than can be written at once
	if err := s.Notify(t.Context(), "notifications/roots/list_changed", more); err != nil {
		t.Fatal(err)
	}
	time.Sleep(3 * entry.Timeout)
	f.mustCall("s", "echo", "{}")
	if after := f.state("s"); after.PID != before.PID {
		t.Errorf("it was started again: pid %d, then %d", before.PID, after.PID)
	}
}

// An edit that is undone starts no idle server; a restart does.
func TestIdleServerStaysIdle(t *testing.T) {
	t.Parallel()
	lazy := fake("s")
	lazy.Lazy = true
	f := supervise(t)
	f.known["s"] = true
	f.apply(lazy)
	f.await("s", Idle)
	edited := lazy
	edited.Timeout = time.Minute
	for range 20 {
		f.apply(edited)
		f.apply(lazy)
	}
	time.Sleep(100 * time.Millisecond)
	if st := f.state("s"); st.State != Idle || f.spawned.Load() != 0 {
		t.Errorf("after edits that were undone: %+v", st)
	}
	for range 2 {
		if err := f.Restart(t.Context(), "s"); err != nil || f.state("s").State != Ready {
			t.Errorf("after a restart: %+v, %v", f.state("s"), err)
		}
	}
}

// A restart and an edit end a start that hangs.
func TestHangingStartIsEnded(t *testing.T) {
	t.Parallel()
	f := supervise(t, fake("s", "-mute"))
	mcptest.WaitFor(t, "the start to hang", func() bool { return f.spawned.Load() == 1 })
	go f.Restart(t.Context(), "s")
	mcptest.WaitFor(t, "another start", func() bool { return f.spawned.Load() == 2 })
	f.apply(fake("s"))
	f.await("s", Ready)
	self := fake("self")
	self.Self = true
	f.apply(self)
	f.await("self", Self)
	if err := f.Restart(t.Context(), "self"); err == nil || !strings.Contains(err.Error(), "router") {
		t.Errorf("restart of an entry that would start a router: %v", err)
	}
}

// The words of an earlier process, or of another, are not this one's.
func TestReasonsAreTheProcessesOwn(t *testing.T) {
	t.Parallel()
	missing := fake("missing")
	missing.Cwd = "/no/such/folder"
	f := supervise(t, missing, fake("s", "-stderr-flood", "1000"))
	if st := f.await("missing", Failed); !strings.Contains(st.LastError, "/no/such/folder is no folder") {
		t.Errorf("a missing working directory: %s", st.LastError)
	}
	f.await("s", Ready)
	f.apply(config.Server{Name: "s", Transport: config.Stdio, StartTimeout: time.Minute, Command: "sh", Args: []string{"-c", "exit 9"}, Env: map[string]string{"K": "1"}})
	if st := f.await("s", Failed); st.LastError != "exited with status 9" {
		t.Errorf("last error %q", st.LastError)
	}
}

func TestRestingEntries(t *testing.T) {
	t.Parallel()
	disabled, broken, self := fake("disabled"), fake("broken"), fake("self")
	disabled.Disabled, broken.Misconfigured, self.Self = true, "TOKEN is not set", true
	f := supervise(t, disabled, broken, self)
	for name, state := range map[string]State{"disabled": Disabled, "broken": Misconfigured, "self": Self} {
		f.await(name, state)
		if _, err := f.call(name, "echo", "{}"); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("a call to %s: %v", name, err)
		}
	}
	disabled.Disabled = false
	f.apply(disabled)
	f.await("disabled", Ready)
}

// A router that is started by a router says so, and is left alone.
func TestSelfFoundByItsAnswer(t *testing.T) {
	t.Parallel()
	answer := string(wire.AppendError(nil, []byte("1"), wire.Marshal(session.Error{Code: SelfCode, Message: "no", Data: json.RawMessage(`{"metarouter":"self"}`)})))
	f := supervise(t, config.Server{
		Name: "s", Transport: config.Stdio, StartTimeout: time.Minute,
		Command: "sh", Args: []string{"-c", "read x; printf '%s' '" + answer + "'; exit 2"},
	})
	f.await("s", Self)
}

func TestManyStartAtOnce(t *testing.T) {
	t.Parallel()
	var entries []config.Server
	for i := range 30 {
		entries = append(entries, fake(fmt.Sprint("s", i)))
	}
	f := supervise(t, entries...)
	for _, e := range entries {
		f.mustCall(e.Name, "echo", "{}")
	}
}

// beRouter supervises the fake servers that its arguments describe, a comma
// between flags, and says when they are ready. It is killed.
func beRouter(servers []string) {
	l := &learner{learned: make(map[string]int), tools: make(map[string]string)}
	v := New(l, Options{Guard: guardCommand()}, zap.NewNop())
	configs := make(chan config.Config, 1)
	var c config.Config
	for i, flags := range servers {
		c.Servers = append(c.Servers, fake(fmt.Sprint("s", i), strings.Split(flags, ",")...))
	}
	configs <- c
	go v.Run(context.Background(), configs)
	for _, s := range c.Servers {
		if _, err := v.Session(context.Background(), s.Name, nil); err != nil {
			fmt.Println(err)
		}
	}
	fmt.Println("ready", v.reaper.guard.pid())
	select {}
}

// pid returns the id of the guard process.
func (g *guard) pid() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.process.Pid
}

// startRouter starts a router in a process group of its own.
func startRouter(t *testing.T, servers ...string) (router *exec.Cmd, guard int) {
	t.Helper()
	self, _ := os.Executable()
	cmd := exec.Command(self, append([]string{"router"}, servers...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	line, err := bufio.NewReader(out).ReadString('\n')
	if _, scanErr := fmt.Sscanf(line, "ready %d", &guard); err != nil || scanErr != nil {
		t.Fatalf("the router said %q, %v", line, err)
	}
	return cmd, guard
}

func TestNoOrphanWhenKilled(t *testing.T) {
	t.Parallel()
	for name, kill := range map[string]func(router *exec.Cmd){
		"SIGKILL": func(r *exec.Cmd) { r.Process.Kill() },
		"the whole group by SIGTERM": func(r *exec.Cmd) {
			syscall.Kill(-r.Process.Pid, syscall.SIGTERM)
		},
		"the whole group by SIGKILL": func(r *exec.Cmd) { syscall.Kill(-r.Process.Pid, syscall.SIGKILL) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pids := pidFile(t)
			router, guard := startRouter(t,
				"-pid-file,"+pids,
				"-ignore-eof,-ignore-term,-pid-file,"+pids,
				"-grandchild,-grandchild-setsid,-ignore-eof,-ignore-term,-pid-file,"+pids)
			kill(router)
			mcptest.Gone(t, pids, 5)
			mcptest.WaitFor(t, "the guard to end", func() bool { return !mcptest.Alive(guard) })
		})
	}
}

func TestGuardComesBack(t *testing.T) {
	t.Parallel()
	pids := pidFile(t)
	f := supervise(t, fake("s", "-ignore-eof", "-pid-file", pids))
	f.await("s", Ready)
	first := f.reaper.guard.pid()
	syscall.Kill(first, syscall.SIGKILL)
	mcptest.WaitFor(t, "a new guard", func() bool { pid := f.reaper.guard.pid(); return pid != first && mcptest.Alive(pid) })
	f.stop()
	mcptest.Gone(t, pids, 1)
}

// ignoresTerm reports whether the process ignores SIGTERM; where the system does
// not say, it leaves it some time.
func ignoresTerm(t *testing.T, pid int) bool {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		time.Sleep(3 * time.Second)
		return true
	}
	_, rest, _ := strings.Cut(string(status), "SigIgn:")
	var mask uint64
	if _, err := fmt.Sscanf(rest, "%x", &mask); err != nil {
		t.Fatal(err)
	}
	return mask&(1<<(syscall.SIGTERM-1)) != 0
}

// Behind the gate nothing executes before the guard was told, nor if the router
// dies before that.
func TestGate(t *testing.T) {
	t.Parallel()
	for _, opened := range []bool{true, false} {
		cmd := exec.Command("echo", "through")
		g := &guard{command: guardCommand()}
		open, shut, err := behindGate(cmd, g)
		if err != nil {
			t.Fatal(err)
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if opened {
			open()
		} else {
			shut()
		}
		said, _ := io.ReadAll(out)
		cmd.Wait()
		if want := map[bool]string{true: "through\n", false: ""}[opened]; string(said) != want {
			t.Errorf("opened %v: the command said %q", opened, said)
		}
	}
}

// A stopped guard does not keep the router from ending.
func TestStoppedGuard(t *testing.T) {
	t.Parallel()
	f := supervise(t, fake("s"))
	f.await("s", Ready)
	syscall.Kill(f.reaper.guard.pid(), syscall.SIGSTOP)
	ended := make(chan struct{})
	go func() { defer close(ended); f.stop() }()
	if !within(ended, 20*time.Second) {
		t.Error("Run has not returned")
		syscall.Kill(f.reaper.guard.pid(), syscall.SIGCONT)
	}
}

// A guard deaf to what ends a router kills a group that was registered when its
// pipe closes, and not one that was struck off.
func TestGuardKillsWhatIsRegistered(t *testing.T) {
	t.Parallel()
	start := func() *exec.Cmd {
		cmd := exec.Command("sleep", "600")
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		return cmd
	}
	registered, struckOff := start(), start()
	defer struckOff.Process.Kill()
	guard := exec.Command(guardCommand()[0], "guard")
	pipe, err := guard.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := guard.Start(); err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(pipe, "mark of-this-test\n+ %d\n+ %d\n- %d\nnonsense\n+ 1\n", registered.Process.Pid, struckOff.Process.Pid, struckOff.Process.Pid)
	mcptest.WaitFor(t, "the guard to be deaf", func() bool { return ignoresTerm(t, guard.Process.Pid) })
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP} {
		guard.Process.Signal(sig)
	}
	if !mcptest.Alive(registered.Process.Pid) || !mcptest.Alive(guard.Process.Pid) {
		t.Error("the guard acted on a signal")
	}
	pipe.Close()
	registered.Wait()
	if err := guard.Wait(); err != nil {
		t.Errorf("the guard: %v", err)
	}
	if !mcptest.Alive(struckOff.Process.Pid) {
		t.Error("a group that was struck off was killed")
	}
	struckOff.Process.Kill()
	struckOff.Wait()
}

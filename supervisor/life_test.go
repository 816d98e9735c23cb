//go:build unix

package supervisor

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/process"
	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/status"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/test/expect"
	"github.com/mcp-metarouter/metarouter/test/mcptest"
	"github.com/mcp-metarouter/metarouter/test/play"
)

func TestServeAndStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pids := pidFile(t)
		f := supervise(t, fake("a", "-tools", "echo,pid", "-pid-file", pids), fake("b", "-era", "modern", "-pid-file", pids))
		expect.Contains(t, f.mustCall("b", "echo", `{"x":1}`), `"x":1`, "echo answered")
		a, b := f.await("a", status.Ready), f.await("b", status.Ready)
		if a.Era != "legacy" || b.Era != "modern" || a.PID == 0 || f.mustCall("a", "pid", "{}") != fmt.Sprint(a.PID) {
			t.Errorf("status %+v and %+v", a, b)
		}
		f.stop()
		for _, pid := range mcptest.PIDs(t, pids) {
			if mcptest.Alive(pid) {
				t.Errorf("process %d is alive after Run has returned", pid)
			}
		}
	})
}

func TestFailsWithReasonOthersServe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := supervise(t, fake("bad", "-exit"), fake("good"))
		f.mustCall("good", "echo", "{}")
		st := f.await("bad", status.Failed)
		if !strings.Contains(st.LastError, "status 3") || !strings.Contains(st.LastError, "stderr") || len(st.Stderr) == 0 {
			t.Errorf("last error %q, stderr %q", st.LastError, st.Stderr)
		}
		_, err := f.call("bad", "echo", "{}")
		var unavailable *status.UnavailableError
		if !errors.As(err, &unavailable) || unavailable.State != status.Failed || !errors.Is(err, session.ErrNotSent) || !strings.Contains(err.Error(), `"bad"`) {
			t.Errorf("a call to a failed server: %v", err)
		}
		mcptest.WaitFor(t, "its failure to be logged", func() bool { return f.logged.FilterMessage("server failed").Len() > 0 })
		if n := f.logged.FilterField(zap.String("server", "bad")).Len(); n != 2 { // at the first failure, and when it is given up
			t.Errorf("an operator reads of its failures %d times:\n%v", n, f.logged.All())
		}
		if log, err := os.ReadFile(filepath.Join(f.data, "logs", "bad.log")); err != nil || len(log) == 0 {
			t.Errorf("log of its stderr: %q, %v", log, err)
		}
	})
}

func TestFailedServerComesBackByRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		state := filepath.Join(t.TempDir(), "starts")
		f := supervise(t, fake("s", "-crash-at-start-times", "12", "-exit-on-unknown", "-state", state))
		f.await("s", status.Failed)
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
		defer cancel()
		for f.Restart(ctx, "s") != nil && ctx.Err() == nil {
		}
		if st := f.state("s"); st.State != status.Ready || st.Restarts == 0 {
			t.Errorf("after restart: %+v", st)
		}
	})
}

func TestExitsAtProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		data := t.TempDir()
		for _, want := range []int64{2, 1} { // a second process the first time
			f := superviseIn(t, data, fake("s", "-exit-on-unknown"))
			if st := f.await("s", status.Ready); st.Era != "legacy" || f.starter.Started() != want {
				t.Errorf("%d processes, want %d; %+v", f.starter.Started(), want, st)
			}
			f.stop()
		}
	})
}

func TestNoiseAndFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
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
	})
}

// Messages above the 16 MiB at which the SDK's transport ends are passed on.
func TestLargeMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := supervise(t, fake("s", "-tools", "big,echo"))
		const size = 17 << 20
		if got := f.mustCall("s", "big", fmt.Sprintf(`{"bytes":%d}`, size)); len(got) != size {
			t.Errorf("a result of %d bytes, want %d", len(got), size)
		}
		argument := strings.Repeat("x", 17<<20)
		if got := f.mustCall("s", "echo", `{"message":"`+argument+`"}`); !strings.Contains(got, argument) {
			t.Errorf("an echo of %d bytes, want %d", len(got), len(argument))
		}
	})
}

func TestHangingCallHarmsNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := supervise(t, fake("s", "-tools", "hang,echo"))
		s, err := f.Session(t.Context(), "s", nil)
		expect.OK(t, err)
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
	})
}

func TestCrashInCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
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
	})
}

// A server that answers calls between its crashes is never given up, and calls wait for
// its next start. One that answers none is.
func TestCrashesOfAUsefulServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := supervise(t, fake("useful", "-tools", "crash,echo"), fake("useless", "-tools", "crash"))
		for range loopFailures + 1 {
			f.mustCall("useful", "echo", "{}")
			f.call("useful", "crash", "{}")
		}
		f.mustCall("useful", "echo", "{}")
		mcptest.WaitFor(t, "the useless one to be given up", func() bool {
			if f.state("useless").State == status.Failed {
				return true
			}
			f.call("useless", "crash", "{}")
			return false
		})
	})
}

func TestToolsChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, era := range []string{"legacy", "modern"} {
			f := supervise(t, fake("s", "-tools", "grow", "-era", era))
			f.mustCall("s", "grow", "{}")
			mcptest.WaitFor(t, era+": the changed tools to be listed", func() bool {
				n, tools := f.listings("s")
				return n >= 2 && strings.Count(tools, `"inputSchema"`) == 2
			})
		}
	})
}

// A restart and an edit end a start that hangs.
func TestHangingStartIsEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := supervise(t, fake("s", "-mute"))
		mcptest.WaitFor(t, "the start to hang", func() bool { return f.starter.Started() == 1 })
		go f.Restart(t.Context(), "s")
		mcptest.WaitFor(t, "another start", func() bool { return f.starter.Started() == 2 })
		f.apply(fake("s"))
		f.await("s", status.Ready)
		self := fake("self")
		self.Self = true
		f.apply(self)
		f.await("self", status.Self)
		expect.Error(t, f.Restart(t.Context(), "self"), "router", "restart of an entry that would start a router")
	})
}

// The words of an earlier process, or of another, are not this one's.
func TestReasonsAreTheProcessesOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for range 20 { // the process may end before the first message is to be written, or after
			f := supervise(t, fake("s", "-stderr-flood", "1000"))
			f.await("s", status.Ready)
			f.starter.Play = play.Program(func([]string, io.Reader, io.Writer, io.Writer) int { return 9 })
			edited := fake("s")
			edited.Env = map[string]string{"K": "1"}
			f.apply(edited)
			expect.Equal(t, f.await("s", status.Failed).LastError, "exited with status 9", "last error")
			f.stop()
		}
	})
}

func TestRestingEntries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disabled, broken, self := fake("disabled"), fake("broken"), fake("self")
		disabled.Disabled, broken.Misconfigured, self.Self = true, "TOKEN is not set", true
		f := supervise(t, disabled, broken, self)
		for name, state := range map[string]status.State{"disabled": status.Disabled, "broken": status.Misconfigured, "self": status.Self} {
			f.await(name, state)
			_, err := f.call(name, "echo", "{}")
			expect.Error(t, err, name, "a call to %s", name)
		}
		disabled.Disabled = false
		f.apply(disabled)
		f.await("disabled", status.Ready)
	})
}

// A router that is started by a router says so, and is left alone.
func TestSelfFoundByItsAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answer := wire.AppendError(nil, []byte("1"), wire.Marshal(session.Error{Code: session.CodeSelf, Message: "no", Data: json.RawMessage(`{"metarouter":"self"}`)}))
		f := superviseProgram(t, func(_ []string, stdin io.Reader, stdout, _ io.Writer) int {
			bufio.NewReader(stdin).ReadSlice('\n')
			stdout.Write(answer)
			return 2
		}, fake("s"))
		f.await("s", status.Self)
	})
}

func TestManyStartAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var entries []config.Server
		for i := range 30 {
			entries = append(entries, fake(fmt.Sprint("s", i)))
		}
		f := supervise(t, entries...)
		for _, e := range entries {
			f.mustCall(e.Name, "echo", "{}")
		}
	})
}

func TestEnvironment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		t.Setenv("SECRET_OF_ANOTHER", "x")
		t.Setenv("INHERITED", "yes")
		t.Setenv("HTTPS_PROXY", "http://proxy")
		entry := fake("s", "-tools", "env,cwd")
		entry.Env = map[string]string{"OWN": "1", process.DepthVariable: "7", "npm_config_@scope:registry": "x", "a.b": "y"}
		entry.InheritEnv = []string{"INHERITED"}
		entry.Cwd = t.TempDir()
		f := supervise(t, entry)
		env := f.mustCall("s", "env", "{}")
		for _, want := range []string{"OWN=1", "npm_config_@scope:registry=x", "a.b=y", "INHERITED=yes", "HTTPS_PROXY=http://proxy", "PATH=", "HOME=", process.DepthVariable + "=1"} {
			expect.Contains(t, env, want, "… is missing from the environment")
		}
		expect.Equal(t, strings.Contains(env, "SECRET_OF_ANOTHER"), false, "the server got a variable that its entry does not name")
		expect.Equal(t, f.mustCall("s", "cwd", "{}"), entry.Cwd, "working directory")
	})
}

// A restart during a start starts the server once more, not twice.
func TestRestartDuringAStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := superviseWith(t, t.TempDir(), func(v *Supervisor) {
			v.starter.Play = func(c process.Command) *process.Played {
				if v.starter.Started() == 0 {
					c.Args = append(c.Args, "-mute")
				}
				return play.Server(c)
			}
		}, fake("s"))
		synctest.Wait() // the start hangs
		expect.OK(t, f.Restart(t.Context(), "s"))
		time.Sleep(time.Minute)
		f.mustCall("s", "echo", "{}")
		expect.Equal(t, f.starter.Started(), 2, "processes were started")
	})
}

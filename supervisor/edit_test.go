//go:build unix

package supervisor

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/signal"
	"github.com/mcp-metarouter/metarouter/internal/status"
	"github.com/mcp-metarouter/metarouter/supervisor/internal/launch"
	"github.com/mcp-metarouter/metarouter/test/expect"
	"github.com/mcp-metarouter/metarouter/test/mcptest"
)

// underWay starts a slow call of the server, and returns once it is seen under way.
func (f *fixture) underWay(server, arguments string) (slow chan error) {
	f.t.Helper()
	slow = make(chan error, 1)
	start := func() {
		_, err := f.call(server, "sleep", arguments)
		slow <- err
	}
	go start()
	mcptest.WaitFor(f.t, "the slow call to be under way", func() bool {
		select {
		case err := <-slow: // it has ended before this was seen
			if err != nil {
				f.t.Errorf("the slow call: %v", err)
			}
			go start()
		default:
		}
		s, err := f.Session(f.t.Context(), server, nil)
		return err == nil && !signal.IsClosed(s.(*instance).Calls.Idle())
	})
	return slow
}

func TestEdit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := fake("a", "-tools", "pid,sleep"), fake("b", "-tools", "pid")
		f := supervise(t, a, b)
		pidA, pidB := f.mustCall("a", "pid", "{}"), f.mustCall("b", "pid", "{}")

		// A call under way ends on the old process, while the new one takes over.
		slow := f.underWay("a", `{"ms":1500}`)
		edited := a
		edited.Env = map[string]string{"X": "1"}
		f.apply(edited, b)
		mcptest.WaitFor(t, "the edited server to take over", func() bool { return fmt.Sprint(f.state("a").PID) != pidA })
		expect.Equal(t, f.mustCall("b", "pid", "{}"), pidB, "an edit of one server restarted another")
		expect.OK(t, <-slow, "the call under way during the edit")

		// What does not concern the process leaves it alone.
		pidA = f.mustCall("a", "pid", "{}")
		edited.Timeout = time.Minute
		f.apply(edited, b)
		mcptest.WaitFor(t, "the tools to be listed by the new rules", func() bool { n, _ := f.listings("a"); return n >= 3 })
		expect.Equal(t, f.mustCall("a", "pid", "{}"), pidA, "an edit of the time-out restarted the server")

		// A removed server drains.
		slow = f.underWay("a", `{"ms":1000}`)
		f.apply(b)
		expect.OK(t, <-slow, "the call under way during the removal")
		_, err := f.call("a", "pid", "{}")
		expect.Error(t, err, "no server", "a call to a removed server")
	})
}

// A server that is disabled says so while its calls end.
func TestDisabledServerDrains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		entry := fake("a", "-tools", "pid,sleep")
		f := supervise(t, entry)
		f.mustCall("a", "pid", "{}")
		slow := f.underWay("a", `{"ms":20000}`)
		entry.Disabled = true
		f.apply(entry)
		const why = "it was disabled or removed; its calls under way have 30s to end"
		if st := f.await("a", status.Stopping); st.LastError != why || st.PID == 0 {
			t.Errorf("while its call ends: %+v", st)
		}
		time.Sleep(time.Second)
		if st := f.state("a"); st.Longest < time.Second || st.Longest > 19*time.Second {
			t.Errorf("its call has been under way for %v", st.Longest)
		}
		if _, err := f.call("a", "pid", "{}"); err == nil || err.Error() != `server "a" is stopping: `+why {
			t.Errorf("a new call: %v", err)
		}
		expect.OK(t, <-slow, "the call under way")
		if st := f.await("a", status.Disabled); st.LastError != "" || st.PID != 0 {
			t.Errorf("disabled: %+v", st)
		}
	})
}

// An edit or a restart while the shared session is not there ends clients' own sessions too, unless it concerns no process.
func TestEditWhileRestarting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		entry := fake("r", "-era", "legacy", "-tools", "echo,crash")
		f := supervise(t, entry)
		f.await("r", status.Ready)
		home := clientOf("a")
		home.capabilities = `{"elicitation":{}}`
		edited, longer, disabled := entry, entry, entry
		edited.Env = map[string]string{"X": "1"}
		longer.Env, longer.Timeout = edited.Env, time.Minute
		disabled.Disabled = true
		apply := func(next config.Server) func() { return func() { f.apply(next) } }
		for what, step := range []struct {
			do    func()
			state status.State
			own   int // sessions of the client a while later
		}{
			{apply(edited), status.Ready, 0},
			{apply(longer), status.Ready, 1},
			{func() { expect.OK(t, f.Restart(t.Context(), "r")) }, status.Ready, 0},
			{apply(disabled), status.Disabled, 0},
		} {
			f.launcher.Cache.Edit(f.servers.get("r").control.wanted(), func(r *launch.ProbeResult) { r.AsksElicitation = true })
			expect.OK(t, f.callAs(t.Context(), home))
			for range 2 {
				f.call("r", "crash", "{}")
			}
			f.await("r", status.Restarting)
			expect.Equal(t, len(f.servers.get("r").pool.all()), 1, "the client's sessions before step %d", what)
			step.do()
			f.await("r", step.state)
			time.Sleep(time.Minute)
			expect.Equal(t, len(f.servers.get("r").pool.all()), step.own, "the client's sessions after step %d", what)
		}
	})
}

// A server that is enabled again while its last call ends takes calls then.
func TestEnabledWhileItDrains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		entry := fake("a", "-tools", "pid,sleep")
		f := supervise(t, entry)
		f.mustCall("a", "pid", "{}")
		slow := f.underWay("a", `{"ms":20000}`)
		disabled := entry
		disabled.Disabled = true
		f.apply(disabled)
		f.await("a", status.Stopping)
		f.apply(entry)
		f.await("a", status.Restarting)
		f.mustCall("a", "pid", "{}")
		expect.OK(t, <-slow, "the call under way")
	})
}

// A call whose client's own session is being opened at an edit gets the session after it; after the last
// edit, the error says that the server is disabled.
func TestEditWhileClientsSessionOpens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		entry := fake("r", "-era", "legacy", "-tools", "echo", "-start-delay", "2s")
		f := supervise(t, entry)
		f.await("r", status.Ready)
		edited, disabled := fake("r", "-era", "legacy", "-tools", "echo", "-start-delay", "1500ms"), entry
		disabled.Disabled = true
		ann := clientOf("ann")
		ann.capabilities = `{"elicitation":{}}`
		for _, next := range []struct {
			entry config.Server
			want  string
		}{{edited, ""}, {disabled, "disabled"}} {
			for _, e := range []config.Server{entry, edited} {
				f.launcher.Cache.Edit(e, func(r *launch.ProbeResult) { r.AsksElicitation = true })
			}
			called := make(chan error, 1)
			f.Release(ann)
			go func() { called <- f.callAs(t.Context(), ann) }()
			time.Sleep(time.Second)
			f.apply(next.entry)
			if err := <-called; next.want == "" && err != nil || next.want != "" && (err == nil || !strings.Contains(err.Error(), next.want)) {
				t.Errorf("the call during an edit: %v", err)
			}
		}
	})
}

func TestEditOfExclusiveServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
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
	})
}

func TestEditThatDoesNotStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		good := fake("s", "-tools", "pid")
		f := supervise(t, good, fake("keyed"))
		f.await("s", status.Ready)
		f.await("keyed", status.Ready)
		leaked := fake("keyed", "-exit")
		leaked.Env = map[string]string{"KEY": "new"}
		f.apply(fake("s", "-exit"), leaked)
		mcptest.WaitFor(t, "the entry before the edit to run again", func() bool {
			return strings.Contains(f.state("s").LastError, "the edited entry does not start")
		})
		f.mustCall("s", "pid", "{}")
		f.await("keyed", status.Failed) // a withdrawn key is not used again
		f.apply(fake("s", "-tools", "pid", "-version", "2"))
		mcptest.WaitFor(t, "the next edit to be used", func() bool { st := f.state("s"); return st.State == status.Ready && st.LastError == "" })
	})
}

// A server that is disabled just before a client's own session with it begins gets no process for the client.
func TestDisabledBeforeClientsSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		entry := fake("r", "-era", "legacy", "-tools", "echo")
		f := supervise(t, entry)
		f.await("r", status.Ready)
		f.launcher.Cache.Edit(entry, func(r *launch.ProbeResult) { r.AsksElicitation = true })
		disabled := entry
		disabled.Disabled = true
		ann := hesitant{clientOf("ann"), sync.OnceFunc(func() {
			f.apply(disabled)
			f.await("r", status.Disabled)
		})}
		ann.capabilities = `{"elicitation":{}}`
		expect.Error(t, f.callAs(t.Context(), ann), "disabled")
		expect.Equal(t, len(f.servers.get("r").pool.all()), 0, "sessions")
	})
}

// A hesitant client does something before it says what it can.
type hesitant struct {
	*client
	first func()
}

func (h hesitant) Capabilities() json.RawMessage {
	h.first()
	return h.client.Capabilities()
}

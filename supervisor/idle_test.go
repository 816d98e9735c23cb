//go:build unix

package supervisor

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/signal"
	"github.com/mcp-metarouter/metarouter/internal/status"
	"github.com/mcp-metarouter/metarouter/supervisor/internal/launch"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

// A server that no client uses is stopped, and started again by the next call. No
// call is lost by that, and none under way is cut short.
func TestIdleTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		entry := fake("s", "-tools", "echo,sleep")
		entry.IdleTimeout = 600 * time.Millisecond
		f := supervise(t)
		f.known["s"] = true
		f.apply(entry)
		f.await("s", status.Idle)
		before := f.starter.Started()
		if st := f.state("s"); st.PID != 0 || before != 1 {
			t.Errorf("%d processes were started; %+v", before, st)
		}
		for limit := time.Now().Add(time.Minute); ; {
			_, err := f.call("s", "sleep", `{"ms":1300}`)
			if err == nil {
				break
			}
			if !errors.Is(err, session.ErrNotSent) || time.Now().After(limit) { // it was stopped before the call came
				t.Fatal(err)
			}
			f.await("s", status.Idle)
			before = f.starter.Started()
		}
		expect.Equal(t, f.starter.Started(), before+1, "starts, with that of the call")
		for i := range 8 { // some of them at the moment of the stop
			if _, err := f.call("s", "echo", "{}"); err != nil && !errors.Is(err, session.ErrNotSent) {
				t.Fatalf("lost: %v", err)
			} // its caller sends it again
			time.Sleep(580*time.Millisecond + time.Duration(i)*5*time.Millisecond)
		}
		f.await("s", status.Idle)
		entry.IdleTimeout = 0
		f.apply(entry)
		f.await("s", status.Ready)
	})
}

// Calls that wake a server together do not wake it again when it is idle.
func TestIdleServerIsWokenOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		entry := fake("s", "-tools", "echo")
		entry.Lazy, entry.IdleTimeout = true, 5*time.Second
		f := supervise(t)
		f.known["s"] = true
		f.apply(entry)
		f.await("s", status.Idle)
		f.mustCall("s", "echo", "{}")
		s := f.Supervisor.servers.get("s")
		s.public.mu.Lock()
		in := s.public.latest
		s.public.mu.Unlock()
		signal.Leave(s.control.woken) // as a call does that saw it idle just before
		<-in.done
		time.Sleep(300 * time.Millisecond)
		expect.Equal(t, f.starter.Started(), 1, "one call took … starts")
	})
}

// A server that nothing was sent to for longer than a call may take is no worse for
// it.
func TestLongSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		entry := fake("s", "-tools", "echo")
		entry.Timeout = 5 * time.Second
		f := supervise(t, entry)
		before := f.await("s", status.Ready)
		s, err := f.Session(t.Context(), "s", nil)
		expect.OK(t, err)
		more := fmt.Appendf(nil, `{"x":%q}`, strings.Repeat("x", 3<<20)) // than can be written at once
		expect.OK(t, s.(*instance).Notify(t.Context(), "notifications/roots/list_changed", more))
		time.Sleep(entry.Timeout + time.Second)
		f.mustCall("s", "echo", "{}")
		if after := f.state("s"); after.PID != before.PID {
			t.Errorf("it was started again: pid %d, then %d", before.PID, after.PID)
		}
	})
}

// An edit that is undone starts no idle server; a restart does.
func TestIdleServerStaysIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lazy := fake("s")
		lazy.Lazy = true
		f := supervise(t)
		f.known["s"] = true
		f.apply(lazy)
		f.await("s", status.Idle)
		edited := lazy
		edited.Timeout = time.Minute
		for range 20 {
			f.apply(edited)
			f.apply(lazy)
		}
		time.Sleep(100 * time.Millisecond)
		if st := f.state("s"); st.State != status.Idle || f.starter.Started() != 0 {
			t.Errorf("after edits that were undone: %+v", st)
		}
		for range 2 {
			if err := f.Restart(t.Context(), "s"); err != nil || f.state("s").State != status.Ready {
				t.Errorf("after a restart: %+v, %v", f.state("s"), err)
			}
		}
	})
}

// A client whose own session begins just when the server is stopped for being idle starts the server again.
func TestSessionBeginsWhenIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		entry := fake("r", "-era", "legacy", "-tools", "echo")
		entry.IdleTimeout = time.Minute
		f := supervise(t)
		f.known["r"] = true
		f.apply(entry)
		f.await("r", status.Ready)
		f.launcher.Cache.Edit(entry, func(r *launch.ProbeResult) { r.AsksElicitation = true })
		ann := hesitant{clientOf("ann"), sync.OnceFunc(func() { f.await("r", status.Idle) })}
		ann.capabilities = `{"elicitation":{}}`
		expect.OK(t, f.callAs(t.Context(), ann))
		expect.Equal(t, f.state("r").State, status.Ready)
	})
}

// there is a place with this entry of each server.
type there config.Server

func (p there) Variant(string) *Variant { return &Variant{config.Server(p), "the places differ"} }

// A process that clients of an era or of a place share next to the shared one ends like that one when no client uses it.
func TestOtherSessionsAreIdleToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		entry := fake("r", "-era", "both", "-tools", "echo")
		entry.IdleTimeout = time.Minute
		f := supervise(t)
		f.known["r"] = true
		f.apply(entry)
		f.await("r", status.Ready)
		legacy, placed := clientOf("legacy"), clientOf("placed")
		entry.Env = map[string]string{"X": "theirs"}
		placed.place = there(entry)
		for range 2 {
			expect.OK(t, f.callAs(t.Context(), legacy))
			expect.OK(t, f.callAs(t.Context(), placed))
			expect.Equal(t, len(f.state("r").Sessions), 3, "sessions next to the shared one")
			time.Sleep(10 * time.Minute)
			if st := f.state("r"); st.State != status.Idle || len(st.Sessions) > 0 {
				t.Errorf("after 10 minutes without a call: %s, with %d sessions more", st.State, len(st.Sessions))
			}
		}
	})
}

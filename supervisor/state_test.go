package supervisor

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/status"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/supervisor/internal/peer"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

// A call has a failed server tried again, but not more often than every 15
// seconds, and waits for how that goes.
func TestFailedServerIsTriedOnACall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t.Context(), nil, New(nil, Options{}, zap.NewNop()).common, config.Server{Name: "s"})
		fail := func() { s.public.set(func(st *status.Status) { st.State, st.LastError = status.Failed, "no licence" }) }
		s.public.begin()
		fail()
		call := func() error {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			_, err := s.public.await(ctx, false, nil)
			return err
		}
		var unavailable *status.UnavailableError
		if err := call(); !errors.As(err, &unavailable) || unavailable.Reason != "no licence" || len(s.control.woken) != 0 {
			t.Errorf("a call soon after a failure: %v, woken %d times, want neither a wait nor a try", err, len(s.control.woken))
		}
		time.Sleep(retryOnCall)
		answered := make(chan error, 1)
		began := time.Now()
		go func() { answered <- call() }()
		<-s.control.woken // as run does
		s.public.begin()
		time.Sleep(20 * time.Second)
		fail()
		if err := <-answered; !errors.As(err, &unavailable) || time.Since(began) != 20*time.Second {
			t.Errorf("the call that had it tried again: %v after %v", err, time.Since(began))
		}
		expect.Equal(t, len(s.control.woken), 0, "one call had it tried twice")
		time.Sleep(retryOnCall)
		go func() { answered <- call() }()
		<-s.control.woken
		s.public.set(func(st *status.Status) { st.State = status.Self }) // by an edit, so that no start follows
		began = time.Now()
		if err := <-answered; !errors.As(err, &unavailable) || unavailable.State != status.Self || time.Since(began) != 0 {
			t.Errorf("the call during which the entry became a router: %v after %v", err, time.Since(began))
		}
	})
}

// A call waits while a server starts, and says so when its time is up.
func TestCallWaitsForStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t.Context(), nil, New(nil, Options{}, zap.NewNop()).common, config.Server{Name: "s"})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began := time.Now()
		_, err := s.public.await(ctx, false, nil)
		var unavailable *status.UnavailableError
		if !errors.As(err, &unavailable) || unavailable.State != status.Starting || time.Since(began) != time.Minute {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		s.public.set(func(st *status.Status) { st.State = status.Ready }) // as a server is whose users have had sessions of their own
		soon, end := context.WithTimeout(t.Context(), time.Second)
		defer end()
		if in, err := s.public.await(soon, false, nil); err == nil {
			t.Errorf("session = %v", in)
		}
		in := &instance{Peer: peer.New(peer.Host{}, func(*peer.Conn) peer.Link { return nil })}
		go func() {
			time.Sleep(time.Second)
			s.publish(in)
		}()
		if got, err := s.public.await(t.Context(), false, nil); got != in || err != nil {
			t.Errorf("session = %v, %v", got, err)
		}
	})
}

// A call that comes at the very moment at which its server is stopped for being
// unused is not begun on the session that ends.
func TestCallAtTheIdleStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		entry := config.Server{Name: "s", IdleTimeout: time.Second}
		in := &instance{Peer: peer.New(peer.Host{}, func(c *peer.Conn) peer.Link { return slow{c} }), done: make(chan struct{})}
		in.current.Store(&entry)
		called := make(chan error, 1)
		atStop := zap.Hooks(func(e zapcore.Entry) error {
			if strings.Contains(e.Message, "no client uses it") {
				go func() {
					_, err := in.Call(t.Context(), session.Request{Method: "tools/call"})
					called <- err
				}()
				time.Sleep(time.Millisecond)
			}
			return nil
		})
		core, _ := observer.New(zap.InfoLevel)
		s := newServer(t.Context(), nil, New(knows{}, Options{}, zap.New(core, atStop)).common, entry)
		go func() {
			<-in.Done()
			close(in.done)
		}()
		if _, _, err := s.attend(t.Context(), in); !errors.Is(err, errIdle) {
			t.Errorf("attend = %v", err)
		}
		if err := <-called; err != nil && !errors.Is(err, session.ErrNotSent) {
			t.Errorf("lost: %v", err)
		}
	})
}

// slow is a link to a server that takes a minute to answer.
type slow struct{ to *peer.Conn }

func (l slow) Send(_ context.Context, m *peer.Outgoing) error {
	time.AfterFunc(time.Minute, func() {
		l.to.Settle(m.ID, peer.Reply{Message: wire.Message{Result: []byte("{}")}})
	})
	return nil
}

// knows is a handler of servers whose tools are known.
type knows struct{ Handler }

func (knows) Known(config.Server) bool { return true }

// An entry that is not to be started is never said to be starting.
func TestStateAtFirst(t *testing.T) {
	v := New(nil, Options{}, zap.NewNop())
	for want, entry := range map[status.State]config.Server{
		status.Starting: {}, status.Disabled: {Disabled: true}, status.Misconfigured: {Misconfigured: "no"}, status.Self: {Self: true},
	} {
		expect.Equal(t, newServer(t.Context(), nil, v.common, entry).status().State, want, "it")
	}
}

// Without a configuration there is no status; with one that has no server, there is one of
// no server.
func TestStatusBeforeConfiguration(t *testing.T) {
	v := New(nil, Options{}, zap.NewNop())
	if all := v.Status(); all != nil {
		t.Error("before the first configuration:", all)
	}
	v.apply(t.Context(), config.Config{})
	if all := v.Status(); all == nil || len(all) > 0 {
		t.Error("of a configuration without servers:", all)
	}
}

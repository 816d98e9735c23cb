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
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/session"
)

// A call has a failed server tried again, but not more often than every 15
// seconds, and waits for how that goes.
func TestFailedServerIsTriedOnACall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(New(nil, Options{}, zap.NewNop()), config.Server{Name: "s"})
		fail := func() { s.set(func(st *Status) { st.State, st.LastError = Failed, "no licence" }) }
		s.begin(func(error) {})
		fail()
		call := func() error {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			_, err := s.session(ctx)
			return err
		}
		var unavailable *UnavailableError
		if err := call(); !errors.As(err, &unavailable) || unavailable.Reason != "no licence" || len(s.woken) != 0 {
			t.Errorf("a call soon after a failure: %v, woken %d times, want neither a wait nor a try", err, len(s.woken))
		}
		time.Sleep(retryOnCall)
		answered := make(chan error, 1)
		began := time.Now()
		go func() { answered <- call() }()
		<-s.woken // as run does
		s.begin(func(error) {})
		time.Sleep(20 * time.Second)
		fail()
		if err := <-answered; !errors.As(err, &unavailable) || time.Since(began) != 20*time.Second {
			t.Errorf("the call that had it tried again: %v after %v", err, time.Since(began))
		}
		if len(s.woken) != 0 {
			t.Error("one call had it tried twice")
		}
	})
}

// A call waits while a server starts, and says so when its time is up.
func TestCallWaitsForStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(New(nil, Options{}, zap.NewNop()), config.Server{Name: "s"})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began := time.Now()
		_, err := s.session(ctx)
		var unavailable *UnavailableError
		if !errors.As(err, &unavailable) || unavailable.State != Starting || time.Since(began) != time.Minute {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		in := &instance{peer: newPeer(host{})}
		go func() {
			time.Sleep(time.Second)
			s.publish(in)
		}()
		if got, err := s.session(t.Context()); got != in || err != nil {
			t.Errorf("session = %v, %v", got, err)
		}
	})
}

// A call that comes at the very moment at which its server is stopped for being
// unused is not begun on the session that ends.
func TestCallAtTheIdleStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := &instance{peer: newPeer(host{}), done: make(chan struct{}), entry: config.Server{Name: "s", IdleTimeout: time.Second}}
		in.link = slow{in}
		called := make(chan error, 1)
		atStop := zap.Hooks(func(e zapcore.Entry) error {
			if strings.Contains(e.Message, "nobody uses it") {
				go func() {
					_, err := in.Call(t.Context(), session.Request{Method: "tools/call"})
					called <- err
				}()
				time.Sleep(time.Millisecond)
			}
			return nil
		})
		core, _ := observer.New(zap.InfoLevel)
		s := newServer(New(knows{}, Options{}, zap.New(core, atStop)), in.entry)
		s.life = t.Context()
		s.generation, s.endGeneration = context.WithCancelCause(s.life)
		go func() {
			<-in.closed
			close(in.done)
		}()
		if err := s.attend(t.Context(), in); !errors.Is(err, errIdle) {
			t.Errorf("attend = %v", err)
		}
		if err := <-called; err != nil && !errors.Is(err, session.ErrNotSent) {
			t.Errorf("lost: %v", err)
		}
	})
}

// slow is a link to a server that takes a minute to answer.
type slow struct{ to *instance }

func (l slow) send(_ context.Context, o *outgoing) error {
	time.AfterFunc(time.Minute, func() {
		l.to.peer.settle(o.id, reply{message: wire.Message{Result: []byte("{}")}})
	})
	return nil
}
func (slow) aside(*outgoing) error { return nil }

// knows is a handler of servers whose tools are known.
type knows struct{ Handler }

func (knows) Known(config.Server) bool { return true }

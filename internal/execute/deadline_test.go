package execute

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/status"
)

// A lazy deadline ends as one that has its timer from the start, whether or not somebody waits.
func TestLazyDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, waits := range []bool{false, true} {
			parent, end := context.WithCancelCause(t.Context())
			d := &lazyDeadline{Context: parent, at: time.Now().Add(time.Minute)}
			if waits {
				d.Done()
			}
			if at, ok := d.Deadline(); d.Err() != nil || !ok || !at.Equal(d.at) {
				t.Errorf("it has ended at first: %v, %v", d.Err(), at)
			}
			time.Sleep(time.Minute)
			if d.Err() != context.DeadlineExceeded || parent.Err() != nil {
				t.Errorf("after its time it says %v", d.Err())
			}
			d.stop()
			d = &lazyDeadline{Context: parent, at: time.Now().Add(time.Minute)}
			if waits {
				d.Done()
			}
			left := errors.New("left")
			end(left)
			if d.Err() != context.Canceled || context.Cause(d) != left {
				t.Errorf("after its parent it says %v because of %v", d.Err(), context.Cause(d))
			}
			<-d.Done()
			d.stop()
		}
	})
}

// ready gives out a session at once.
type ready struct{}

func (ready) Session(context.Context, string, session.Client) (session.Session, error) {
	return nil, nil
}
func (ready) Policy(string) Policy      { return Policy{} }
func (ready) State(string) status.State { return status.Ready }

// A call whose session is at hand makes no timer.
func TestAcquireAllocations(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	d := &delivery{e: &Executor{Options: Options{Sessions: ready{}}}, server: "s", startWait: StartWait}
	if n := testing.AllocsPerRun(100, func() {
		if err := d.acquireSession(ctx); err != nil {
			t.Fatal(err)
		}
	}); n > 1 {
		t.Errorf("%v allocations, want 1", n)
	}
}

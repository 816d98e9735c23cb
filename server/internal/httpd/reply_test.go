package httpd

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// Each wait is over exactly after its time, unless it was removed, although one timer serves all.
func TestWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := waits{time: 50 * time.Millisecond}
		began := time.Now()
		over := make(chan time.Duration, 10)
		add := func() { w.add(func() { over <- time.Since(began) }) }
		add()
		time.Sleep(20 * time.Millisecond)
		e := w.add(func() { t.Error("a wait is over that was removed") })
		add()
		time.Sleep(10 * time.Millisecond)
		w.remove(e)
		w.remove(e)
		time.Sleep(time.Second) // the timer rests
		add()
		time.Sleep(time.Second)
		synctest.Wait()
		close(over)
		want := []time.Duration{50 * time.Millisecond, 70 * time.Millisecond, 1080 * time.Millisecond}
		if got := slices.Collect(func(yield func(time.Duration) bool) {
			for d := range over {
				yield(d)
			}
		}); !slices.Equal(got, want) {
			t.Errorf("over after %v, want %v", got, want)
		}
		if w.armed || w.due.Len() > 0 {
			t.Error("the timer runs for nothing")
		}
	})
}

// A question of a server can't reach a client that has left, and fails at once.
func TestSendToClientThatLeft(t *testing.T) {
	s := newStream("1")
	s.opens(func() bool { return false })
	if err := s.Send([]byte(`{"jsonrpc":"2.0","id":1,"method":"elicitation/create"}`)); err != errStreamEnded {
		t.Errorf("%v, want %v", err, errStreamEnded)
	}
}

package roster

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-metarouter/metarouter/cluster/internal/frame"
)

// The age of a frame follows from a quick ping, whatever the sender's clock shows; a slow one says
// nothing.
func TestAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		from := frame.Address{Key: "k", Instance: "i"}
		one := &router{address: from}
		r := &Roster{routers: map[frame.Address]*router{from: one}}
		const ahead = 30 * time.Second
		sendNow := func() *frame.Header { return &frame.Header{From: from, Time: time.Now().Add(ahead).UnixMilli()} }
		age := func(want time.Duration, h *frame.Header) {
			t.Helper()
			if got := r.Age(h); (got - want).Abs() > 100*time.Millisecond {
				t.Errorf("the age is %v, want %v", got, want)
			}
		}
		h := sendNow()
		time.Sleep(5 * time.Second)
		age(0, h) // not known yet

		sent := time.Now()
		time.Sleep(9 * time.Second) // both ways, as after a freeze
		one.measure(sent, time.Now(), h.Time)
		age(0, h)

		sent = time.Now()
		time.Sleep(20 * time.Millisecond)
		one.measure(sent, time.Now(), time.Now().Add(ahead).UnixMilli())
		h = sendNow()
		age(0, h)
		time.Sleep(5 * time.Second)
		age(5*time.Second, h)
		age(0, &frame.Header{From: frame.Address{Key: "other"}, Time: 1})
		if got := r.Age(&frame.Header{From: from, Time: time.Now().Add(time.Minute).UnixMilli()}); got != 0 {
			t.Errorf("a frame of the future has the age %v", got)
		}
	})
}

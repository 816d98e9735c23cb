package rate

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

func TestLimiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		if none := New(0, 5); none != nil || none.Take("x", 1000, 1000) != 0 {
			t.Error("no rate is a limit")
		}
		th := New(10, 0)
		if th.Burst != 10 || th.Take("x", 10, 10) != 0 {
			t.Error("a second's worth is not let in")
		}
		wait := th.Take("x", 1, 1)
		if wait < 100*time.Millisecond || wait > 101*time.Millisecond {
			t.Errorf("wait %v", wait)
		}
		if th.Take("x", 1000, 1000) < time.Second {
			t.Error("what can never be let in need not wait")
		}
		time.Sleep(wait)
		if th.Take("x", 1, 1) != 0 || th.Take("x", 1, 1) == 0 {
			t.Error("after the wait not one is let in")
		}
		if wait := New(1e-300, 1); wait.Take("x", 1, 1) != 0 || wait.Take("x", 1, 1) != longestWait {
			t.Error("next to no rate is one")
		}
		// Those who have gone are forgotten, and there are never too many.
		time.Sleep(2 * time.Second)
		th.Take("y", 5, 5)
		if len(th.buckets) != 1 || th.order.Len() != 1 {
			t.Errorf("%d buckets", len(th.buckets))
		}
		for i := range 2 * maxBuckets {
			th.Take(fmt.Sprint(i), 10, 10)
		}
		if len(th.buckets) != maxBuckets || th.order.Len() != maxBuckets {
			t.Errorf("%d buckets, %d in order", len(th.buckets), th.order.Len())
		}
		if th.Take(fmt.Sprint(2*maxBuckets-1), 1, 1) == 0 {
			t.Error("the last one is forgotten")
		}
	})
}

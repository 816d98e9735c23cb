package httpd

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

func TestLimiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		if none := newLimiter(0, 5); none != nil || none.take("x", 1000, 1000) != 0 {
			t.Error("no rate is a limit")
		}
		th := newLimiter(10, 0)
		if th.burst != 10 || th.take("x", 10, 10) != 0 {
			t.Error("a second's worth is not let in")
		}
		wait := th.take("x", 1, 1)
		if wait < 100*time.Millisecond || wait > 101*time.Millisecond {
			t.Errorf("wait %v", wait)
		}
		if th.take("x", 1000, 1000) < time.Second {
			t.Error("what can never be let in need not wait")
		}
		time.Sleep(wait)
		if th.take("x", 1, 1) != 0 || th.take("x", 1, 1) == 0 {
			t.Error("after the wait not one is let in")
		}
		if wait := newLimiter(1e-300, 1); wait.take("x", 1, 1) != 0 || wait.take("x", 1, 1) != longestWait {
			t.Error("next to no rate is one")
		}
		// Those who have gone are forgotten, and there are never too many.
		time.Sleep(2 * time.Second)
		th.take("y", 5, 5)
		if len(th.buckets) != 1 || th.order.Len() != 1 {
			t.Errorf("%d buckets", len(th.buckets))
		}
		for i := range 2 * maxBuckets {
			th.take(fmt.Sprint(i), 10, 10)
		}
		if len(th.buckets) != maxBuckets || th.order.Len() != maxBuckets {
			t.Errorf("%d buckets, %d in order", len(th.buckets), th.order.Len())
		}
		if th.take(fmt.Sprint(2*maxBuckets-1), 1, 1) == 0 {
			t.Error("the last one is forgotten")
		}
	})
}

func TestNetwork(t *testing.T) {
	for remote, want := range map[string]string{
		"192.0.2.1:80": "192.0.2.1", "[::ffff:192.0.2.1]:80": "192.0.2.1", "[2001:db8:1:2:3::4]:80": "2001:db8:1:2::/64",
		"[fe80::1%eth0]:80": "fe80::/64", "[::1]:80": "::/64", "pipe": "pipe", "name:80": "name",
	} {
		if got := network(remote); got != want {
			t.Errorf("%s: %s, want %s", remote, got, want)
		}
	}
}

package link

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/mcp-metarouter/metarouter/cluster/internal/frame"
)

// Each frame that many goroutines send is published once, frames of a goroutine in order, and each
// goroutine gets its own error.
func TestGroup(t *testing.T) {
	const senders, each = 50, 200
	var g group
	var mu sync.Mutex // fails the test if two goroutines publish at once
	got := map[string]int{}
	publish := func(all []*sending) {
		if !mu.TryLock() {
			t.Error("two goroutines publish at once")
			return
		}
		defer mu.Unlock()
		for _, one := range all {
			var n int
			fmt.Sscan(string(one.data), &n)
			if n != got[one.to.Key] {
				t.Errorf("%s: %d came after %d", one.to.Key, n, got[one.to.Key])
			}
			got[one.to.Key]++
			one.err = errors.New(one.to.Key)
		}
	}
	var running sync.WaitGroup
	for i := range senders {
		running.Go(func() {
			name := fmt.Sprint(i)
			for n := range each {
				err := g.send(&sending{to: frame.Address{Key: name}, data: fmt.Append(nil, n)}, publish)
				if err == nil || err.Error() != name {
					t.Errorf("%s got the error %v", name, err)
				}
			}
		})
	}
	running.Wait()
	if len(got) != senders || g.busy || len(g.waiting) > 0 {
		t.Errorf("%d senders, busy %t, %d wait", len(got), g.busy, len(g.waiting))
	}
}

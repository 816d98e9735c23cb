package link

import (
	"runtime"
	"sync"

	"github.com/mcp-metarouter/metarouter/cluster/internal/frame"
)

// A group sends frames that goroutines send at the same time together, with one signature for those
// to one router. The first of them publishes the frames of all. A goroutine that is alone does not
// wait. The zero value is ready for use.
type group struct {
	mu      sync.Mutex // guards the fields below
	waiting []*sending
	busy    bool // a goroutine publishes, or was woken to
}

// A sending is a frame that a goroutine sends.
type sending struct {
	to      frame.Address
	data    []byte // without a signature
	payload int    // its length
	sent    bool
	err     error
	wake    chan struct{} // has an item when the frame was sent, or its goroutine is to publish next
}

// send sends a frame by means of publish, which sets the err of each.
func (g *group) send(one *sending, publish func(all []*sending)) error {
	g.mu.Lock()
	g.waiting = append(g.waiting, one)
	if g.busy {
		one.wake = make(chan struct{}, 1)
		g.mu.Unlock()
		<-one.wake // the goroutine that publishes does not wait for anything
		if one.sent {
			return one.err
		}
		g.mu.Lock()
	} else {
		g.busy = true
		g.mu.Unlock()
		runtime.Gosched() // others that are about to send come along
		g.mu.Lock()
	}
	all := g.waiting
	g.waiting = nil
	g.mu.Unlock()
	publish(all)
	for _, other := range all {
		other.sent = true
		if other != one {
			other.wake <- struct{}{}
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.busy = len(g.waiting) > 0; g.busy {
		g.waiting[0].wake <- struct{}{}
	}
	return one.err
}

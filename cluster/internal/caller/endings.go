package caller

import (
	"sync"
	"time"

	"github.com/mcp-metarouter/metarouter/cluster/internal/frame"
)

const (
	// maxEnded bounds the IDs of calls with a received result in a frame, and after endedDelay they
	// get a frame of their own. A frame for each call would cost a fourth of a call.
	maxEnded   = 32
	endedDelay = time.Second
)

// Endings are calls with a received result that their nodes do not know of yet: these keep the
// results for a while.
type endings struct {
	mu  sync.Mutex // guards ids
	ids map[frame.Address][]string
}

func (e *endings) init() { e.ids = make(map[frame.Address][]string) }

// add notes that the result of a call has arrived. It returns the IDs that must be sent at once.
func (e *endings) add(to frame.Address, id string) []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	ids := append(e.ids[to], id)
	if len(ids) >= maxEnded {
		delete(e.ids, to)
		return ids
	}
	e.ids[to] = ids
	return nil
}

// take removes and returns the IDs that a frame to a router has.
func (e *endings) take(to frame.Address) []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	ids := e.ids[to]
	delete(e.ids, to)
	return ids
}

// all removes and returns all IDs.
func (e *endings) all() map[frame.Address][]string {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.ids) == 0 {
		return nil
	}
	all := e.ids
	e.init()
	return all
}

// ended says to a router that the results of calls have arrived.
func (c *Caller) ended(to frame.Address, ids []string) {
	if len(ids) > 0 {
		// The node forgets them in time if this is lost.
		_ = c.Wire.Send(to, frame.Header{Kind: frame.Done, Ended: ids}, nil)
	}
}

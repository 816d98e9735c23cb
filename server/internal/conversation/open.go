package conversation

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/signal"
)

// maxInFlight bounds the requests of one client that are not answered yet.
const maxInFlight = 1000

// OpenRequests are the requests of one client that are not answered yet. The zero
// value is ready.
type OpenRequests struct {
	running sync.WaitGroup // the requests that were added and not removed

	mu     sync.Mutex // guards the fields below, and asker of the requests
	open   []*Request
	room   [1]*Request   // for open, while one request at a time comes
	closed bool          // no more requests
	empty  signal.Change // to no open request
}

// add adds a request, which must be removed. It fails with ErrIDInUse, ErrBusy or
// ErrClosed.
func (o *OpenRequests) add(r *Request) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case o.closed:
		return ErrClosed
	case o.index(r.ID) >= 0:
		return ErrIDInUse
	case len(o.open) >= maxInFlight:
		return ErrBusy
	case o.open == nil:
		o.open = o.room[:0]
	}
	o.open = append(o.open, r)
	o.running.Add(1)
	return nil
}

// index returns the index of the open request of the id, or -1. o.mu must be held.
func (o *OpenRequests) index(id []byte) int {
	return slices.IndexFunc(o.open, func(r *Request) bool { return bytes.Equal(r.ID, id) })
}

// remove removes a request that has ended, and reports whether it was still open.
func (o *OpenRequests) remove(r *Request) bool {
	defer o.running.Done()
	o.mu.Lock()
	defer o.mu.Unlock()
	i := slices.Index(o.open, r)
	if i < 0 {
		return false
	}
	o.drop(i)
	return true
}

// cancel ends an open request that is not to be answered.
func (o *OpenRequests) cancel(id json.RawMessage) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if i := o.index(id); i >= 0 && o.open[i].Method != "initialize" {
		o.open[i].Cancel(errCancelled)
		o.drop(i)
	}
}

// Abandon cancels all requests that are still open, and returns their ids.
func (o *OpenRequests) Abandon() (ids []json.RawMessage) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for len(o.open) > 0 {
		ids = append(ids, o.open[0].ID)
		o.open[0].Cancel(ErrClosed)
		o.drop(0)
	}
	return ids
}

// close cancels all open requests, and lets no more in.
func (o *OpenRequests) close() {
	o.mu.Lock()
	o.closed = true
	o.mu.Unlock()
	o.Abandon()
}

// drop forgets the request with the index. o.mu must be held.
func (o *OpenRequests) drop(i int) {
	last := len(o.open) - 1
	o.open[i], o.open[last] = o.open[last], nil
	if o.open = o.open[:last]; last == 0 {
		o.empty.Notify()
	}
}

// Drain waits until all requests are answered, which it reports, or d has passed or
// ctx ends. No request may begin meanwhile.
func (o *OpenRequests) Drain(ctx context.Context, d time.Duration) (drained bool) {
	o.mu.Lock()
	open, empty := len(o.open), o.empty.Next()
	o.mu.Unlock()
	if open == 0 {
		return true
	}
	select {
	case <-empty:
		return true
	case <-time.After(d):
	case <-ctx.Done():
	}
	return false
}

// askers returns the suspensions that can ask the client at once.
func (o *OpenRequests) askers() (all []*suspension) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, r := range o.open {
		if r.asker != nil {
			all = append(all, r.asker)
		}
	}
	return all
}

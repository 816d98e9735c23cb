package conversation

import (
	"context"
	"encoding/json"
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

	mu     sync.Mutex // guards what follows, and asker of the requests
	byID   map[string]*Request
	closed bool          // no more requests
	empty  signal.Change // to no open request
}

// add adds a request, which must be removed. It fails with ErrIDInUse, errBusy or
// ErrClosed.
func (o *OpenRequests) add(r *Request) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case o.closed:
		return ErrClosed
	case o.byID[string(r.ID)] != nil:
		return ErrIDInUse
	case len(o.byID) >= maxInFlight:
		return errBusy
	}
	if o.byID == nil {
		o.byID = make(map[string]*Request)
	}
	o.byID[string(r.ID)] = r
	o.running.Add(1)
	return nil
}

// count returns how many requests are open.
func (o *OpenRequests) count() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.byID)
}

// remove removes a request that has ended, and reports whether it was still open.
func (o *OpenRequests) remove(r *Request) bool {
	defer o.running.Done()
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.byID[string(r.ID)] != r {
		return false
	}
	o.drop(r)
	return true
}

// cancel ends an open request that is not to be answered.
func (o *OpenRequests) cancel(id json.RawMessage) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if r := o.byID[string(id)]; r != nil && r.Method != "initialize" {
		r.Cancel(errCancelled)
		o.drop(r)
	}
}

// Abandon cancels all requests that are still open, and returns their ids.
func (o *OpenRequests) Abandon() (ids []json.RawMessage) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, r := range o.byID {
		ids = append(ids, r.ID)
		r.Cancel(ErrClosed)
		o.drop(r)
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

// drop forgets a request. o.mu must be held.
func (o *OpenRequests) drop(r *Request) {
	delete(o.byID, string(r.ID))
	if len(o.byID) == 0 {
		o.empty.Notify()
	}
}

// Drain waits until all requests are answered, which it reports, or d has passed or
// ctx ends. No request may begin meanwhile.
func (o *OpenRequests) Drain(ctx context.Context, d time.Duration) (drained bool) {
	o.mu.Lock()
	open, empty := len(o.byID), o.empty.Next()
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

// setAsker sets the suspension that may ask the client in the answer to the request; nil
// for none.
func (o *OpenRequests) setAsker(r *Request, s *suspension) {
	o.mu.Lock()
	defer o.mu.Unlock()
	r.asker = s
}

// askers returns the suspensions that can ask the client at once.
func (o *OpenRequests) askers() (all []*suspension) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, r := range o.byID {
		if r.asker != nil {
			all = append(all, r.asker)
		}
	}
	return all
}

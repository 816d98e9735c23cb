package conversation

import (
	"context"
	"encoding/json"
	"sync"
	"time"
)

// maxInFlight bounds the requests of one client that are not answered yet.
const maxInFlight = 1000

// openRequests are the requests of one client that are not answered yet. The zero
// value is ready.
type openRequests struct {
	running sync.WaitGroup // the requests that were added and not removed

	mu     sync.Mutex // guards what follows, and asker of the requests
	byID   map[string]*Request
	closed bool          // no more requests
	empty  chan struct{} // closed when no request is open any more; nil if no one waits
}

// add adds a request, which must be removed. It fails with ErrIDInUse, errBusy or
// ErrClosed.
func (o *openRequests) add(r *Request) error {
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
func (o *openRequests) count() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.byID)
}

// remove removes a request that has ended, and reports whether it was still open.
func (o *openRequests) remove(r *Request) bool {
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
func (o *openRequests) cancel(id json.RawMessage) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if r := o.byID[string(id)]; r != nil && r.Method != "initialize" {
		r.Cancel(errCancelled)
		o.drop(r)
	}
}

// cancelAll cancels all open requests, and returns their ids.
func (o *openRequests) cancelAll(cause error) (ids []json.RawMessage) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, r := range o.byID {
		ids = append(ids, r.ID)
		r.Cancel(cause)
		o.drop(r)
	}
	return ids
}

// close cancels all open requests, and lets no more in.
func (o *openRequests) close() {
	o.mu.Lock()
	o.closed = true
	o.mu.Unlock()
	o.cancelAll(ErrClosed)
}

// drop forgets a request. o.mu must be held.
func (o *openRequests) drop(r *Request) {
	delete(o.byID, string(r.ID))
	if len(o.byID) == 0 && o.empty != nil {
		close(o.empty)
		o.empty = nil
	}
}

// drain waits until no request is open, which it reports, or d has passed or ctx
// ends. No request may be added meanwhile, and only one goroutine may wait.
func (o *openRequests) drain(ctx context.Context, d time.Duration) (drained bool) {
	o.mu.Lock()
	if len(o.byID) == 0 {
		o.mu.Unlock()
		return true
	}
	empty := make(chan struct{})
	o.empty = empty
	o.mu.Unlock()
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
func (o *openRequests) setAsker(r *Request, s *suspension) {
	o.mu.Lock()
	defer o.mu.Unlock()
	r.asker = s
}

// askers returns the suspensions that can ask the client at once.
func (o *openRequests) askers() (all []*suspension) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, r := range o.byID {
		if r.asker != nil {
			all = append(all, r.asker)
		}
	}
	return all
}

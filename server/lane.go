package server

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/mcp-metarouter/metarouter/session"
)

// maxInFlight bounds the requests of one client that are not answered yet.
const maxInFlight = 1000

var (
	errIDInUse = &session.Error{Code: session.CodeInvalidRequest, Message: "the id of the request is in use"}
	errClosed  = &session.Error{Code: session.CodeInternal, Message: "the router is going away"}
	errBusy    = &session.Error{Code: session.CodeInternal, Message: fmt.Sprintf("busy: %d requests are in flight", maxInFlight)}
)

// A lane knows the requests of one client that are not answered yet, and runs
// the tool calls among them.
type lane struct {
	running sync.WaitGroup // the goroutines of tool calls

	mu       sync.Mutex // guards what follows
	open     map[string]*request
	calls    int           // goroutines of tool calls, those of cancelled ones too
	closed   bool          // nothing enters any more
	answered chan struct{} // closed when nothing is open any more; nil if nobody waits
}

// A request is open until it is answered or cancelled.
type request struct {
	cancel context.CancelFunc // nil if the SDK answers it
}

func newLane() *lane { return &lane{open: make(map[string]*request)} }

// start runs a tool call in a goroutine of its own. answer is called with its
// outcome unless the call was cancelled. Start fails as enter does.
func (l *lane) start(ctx context.Context, id json.RawMessage, call func(context.Context) (json.RawMessage, error), answer func(json.RawMessage, error)) error {
	ctx, cancel := context.WithCancel(ctx)
	r := &request{cancel: cancel}
	if err := l.enter(string(id), r); err != nil {
		cancel()
		return err
	}
	go func() {
		defer l.running.Done()
		defer cancel()
		result, err := call(ctx)
		ended := ctx.Err() != nil // looked at first: behind leave, drain may end everything
		if l.leave(string(id), r) && !ended {
			answer(result, err)
		}
	}()
	return nil
}

// enter notes an open request, and a goroutine if it is a tool call. It fails with
// errIDInUse, errBusy or errClosed.
func (l *lane) enter(id string, r *request) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.closed:
		return errClosed
	case l.open[id] != nil:
		return errIDInUse
	case max(l.calls, len(l.open)) >= maxInFlight:
		return errBusy
	}
	l.open[id] = r
	if r.cancel != nil {
		l.calls++
		l.running.Add(1)
	}
	return nil
}

// leave forgets the tool call, and reports whether it was still open.
func (l *lane) leave(id string, r *request) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls--
	if l.open[id] != r {
		return false
	}
	l.remove(id)
	return true
}

// answeredBySDK forgets a request that is not a tool call.
func (l *lane) answeredBySDK(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r := l.open[id]; r != nil && r.cancel == nil {
		l.remove(id)
	}
}

// cancel cancels the tool call with the given id, and reports whether there is one.
func (l *lane) cancel(id json.RawMessage) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.open[string(id)]
	if r == nil || r.cancel == nil {
		return false
	}
	l.remove(string(id))
	r.cancel()
	return true
}

// abandon cancels all tool calls that are still open, and returns their ids.
func (l *lane) abandon() (ids []json.RawMessage) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for id, r := range l.open {
		if r.cancel != nil {
			ids = append(ids, json.RawMessage(id))
			r.cancel()
			l.remove(id)
		}
	}
	return ids
}

// remove closes the request. l.mu must be held.
func (l *lane) remove(id string) {
	delete(l.open, id)
	if len(l.open) == 0 && l.answered != nil {
		close(l.answered)
		l.answered = nil
	}
}

// drain waits until nothing is open, d has passed or ctx ends. Nothing may enter
// meanwhile, and only one may wait.
func (l *lane) drain(ctx context.Context, d time.Duration) {
	l.mu.Lock()
	if len(l.open) == 0 {
		l.mu.Unlock()
		return
	}
	answered := make(chan struct{})
	l.answered = answered
	l.mu.Unlock()
	select {
	case <-answered:
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// close lets nothing more in, and waits for the tool calls that run.
func (l *lane) close() {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.running.Wait()
}

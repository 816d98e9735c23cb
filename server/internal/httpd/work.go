package httpd

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/mcp-metarouter/metarouter/server/internal/conversation"
)

// work is what a handler has under way.
type work struct {
	ctx     context.Context // ends when everything must end
	end     context.CancelCauseFunc
	memory  atomic.Int64   // bytes that the bodies of all requests and long answers take
	running sync.WaitGroup // HTTP requests, and goroutines that outlive theirs

	mu        sync.Mutex         // guards what follows
	closing   bool               // no more MCP requests
	closed    bool               // no more HTTP requests
	responses map[*response]bool // HTTP requests that are being served
	calls     int                // MCP requests that are being answered, without subscriptions
	drained   chan struct{}      // closed when calls becomes 0; nil if no one waits
}

func newWork() *work {
	w := &work{responses: make(map[*response]bool)}
	w.ctx, w.end = context.WithCancelCause(context.Background())
	return w
}

// enter lets an HTTP request in, which must call leave.
func (w *work) enter(p *response) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return false
	}
	w.running.Add(1)
	w.responses[p] = true
	return true
}

// leave ends an HTTP request.
func (w *work) leave(p *response) {
	w.mu.Lock()
	delete(w.responses, p)
	w.mu.Unlock()
	w.running.Done()
}

// admit lets an MCP request in, unless the handler is closing. done must be called
// when the request was answered.
func (w *work) admit(method string) (done func(), err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closing {
		return nil, conversation.ErrClosed
	}
	if method == "subscriptions/listen" { // ends only if it is made to
		return func() {}, nil
	}
	w.calls++
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.calls--
		if w.calls == 0 && w.drained != nil {
			close(w.drained)
			w.drained = nil
		}
	}, nil
}

// drain lets no more MCP requests in, and waits until those under way are answered
// or ctx ends.
func (w *work) drain(ctx context.Context) {
	w.mu.Lock()
	w.closing = true
	drained := make(chan struct{})
	if w.drained = drained; w.calls == 0 {
		close(drained)
		w.drained = nil
	}
	w.mu.Unlock()
	select {
	case <-drained:
	case <-ctx.Done():
	}
}

// stop ends everything, and lets no more HTTP requests in. Those under way are to end soon.
func (w *work) stop() {
	w.end(conversation.ErrClosed)
	w.mu.Lock()
	defer w.mu.Unlock() // a request that has left must not be touched
	w.closed = true
	for p := range w.responses {
		p.hurry()
	}
}

package httpd

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/mcp-metarouter/metarouter/server/internal/conversation"
	"github.com/mcp-metarouter/metarouter/server/internal/identity"
)

// work is all requests that a handler has under way.
type work struct {
	ctx     context.Context // ends when everything must end
	end     context.CancelCauseFunc
	memory  atomic.Int64   // bytes that the bodies of all requests and long answers take
	running sync.WaitGroup // HTTP requests, and goroutines that outlive theirs

	mu        sync.Mutex         // guards the fields below
	closing   bool               // no more MCP requests
	responses map[*response]bool // HTTP requests that are being served
	calls     int                // MCP requests that are being answered, without subscriptions
	drained   chan struct{}      // closed when no more MCP requests come, and those under way are answered

	open map[*conversation.Request]*identity.Grant // requests without a session, which end with their grant
}

func newWork() *work {
	w := &work{drained: make(chan struct{}), responses: make(map[*response]bool), open: make(map[*conversation.Request]*identity.Grant)}
	w.ctx, w.end = context.WithCancelCause(context.Background())
	return w
}

// enter lets an HTTP request in, which must call leave.
func (w *work) enter(p *response) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ctx.Err() != nil {
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

// admit lets an MCP request in, unless the handler is closing. answered must be called
// when the request was answered.
func (w *work) admit(method string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.closing:
		return conversation.ErrClosed
	case method != "subscriptions/listen": // which ends only if it is made to
		w.calls++
	}
	return nil
}

// answered undoes admit.
func (w *work) answered(method string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if method == "subscriptions/listen" {
		return
	}
	if w.calls--; w.calls == 0 && w.closing {
		close(w.drained)
	}
}

// begin begins a request that ends with its connection, its grant and the handler. finish must be called.
func (w *work) begin(r *http.Request, c *conversation.Conversation, m conversation.Message, to conversation.Writer) (*conversation.Request, error) {
	q := requestOf(r)
	if q.revoked() {
		return nil, identity.ErrRevoked
	}
	call, err := c.Begin(q.client.WithSubject(r.Context()), traced(r.Header, m), to)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	w.open[call] = q.client.Grant
	w.mu.Unlock()
	if w.ctx.Err() != nil || q.client.IsRevoked() { // since then
		w.cut()
	}
	return call, nil
}

// finish undoes begin, when the answer is written.
func (w *work) finish(call *conversation.Request) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.open, call)
}

// cut cancels the requests that may not go on.
func (w *work) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for call, g := range w.open {
		switch {
		case w.ctx.Err() != nil:
			call.Cancel(conversation.ErrClosed)
		case g.Context.Err() != nil:
			call.Cancel(identity.ErrRevoked)
		}
	}
}

// drain lets no more MCP requests in, and waits until those under way are answered
// or ctx ends.
func (w *work) drain(ctx context.Context) {
	w.mu.Lock()
	if !w.closing && w.calls == 0 {
		close(w.drained)
	}
	w.closing = true
	w.mu.Unlock()
	select {
	case <-w.drained:
	case <-ctx.Done():
	}
}

// stop ends everything, and lets no more HTTP requests in. Those under way are to end soon.
func (w *work) stop() {
	w.mu.Lock()
	defer w.mu.Unlock() // a request that has left must not be touched
	w.end(conversation.ErrClosed)
	for p := range w.responses {
		p.hurry()
	}
}

package httpd

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/mcp-metarouter/metarouter/internal/signal"
	"github.com/mcp-metarouter/metarouter/server/internal/conversation"
	"github.com/mcp-metarouter/metarouter/server/internal/identity"
)

// work is all requests that a handler has under way.
type work struct {
	ctx     context.Context // ends when everything must end
	end     context.CancelCauseFunc
	memory  atomic.Int64   // bytes that the bodies of all requests and long answers take
	running sync.WaitGroup // HTTP requests, and goroutines that outlive theirs

	calls *signal.Life // MCP requests that are being answered, without subscriptions; it ends when no more are let in, and no more sessions

	mu        sync.Mutex         // guards responses, and the call of each
	responses map[*response]bool // HTTP requests that are being served
}

func newWork() *work {
	w := &work{calls: signal.NewLife(), responses: make(map[*response]bool)}
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

// subscribes reports whether requests of the method end only if they are made to.
func subscribes(method string) bool { return method == "subscriptions/listen" }

// admit lets an MCP request in, unless the handler is closing. answered must be called
// when the request was answered.
func (w *work) admit(method string) error {
	if w.calls.Cause() != nil || !subscribes(method) && !w.calls.Begin() {
		return conversation.ErrClosed
	}
	return nil
}

// answered undoes admit.
func (w *work) answered(method string) {
	if !subscribes(method) {
		w.calls.Work.Done()
	}
}

// visit begins a request without a session, which ends with its connection, its grant and the handler. It must be closed when the
// answer is written.
func (w *work) visit(p *response, r *http.Request, plain bool, m conversation.Message, to conversation.Writer) (*conversation.Request, error) {
	q := requestOf(r)
	if q.revoked() {
		return nil, identity.ErrRevoked
	}
	c := q.backend.Clients.Visit(plain, q.client.Grant.Identity(), r.UserAgent())
	call, err := c.Begin(q.client.WithSubject(r.Context()), traced(r.Header, m), to)
	if err != nil {
		c.Close()
		return nil, err
	}
	w.mu.Lock()
	p.call, p.grant = call, q.client.Grant
	w.mu.Unlock()
	if w.ctx.Err() != nil || q.client.IsRevoked() { // since then
		w.cut()
	}
	return call, nil
}

// cut cancels the requests without a session that may not go on.
func (w *work) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for p := range w.responses {
		switch {
		case p.call == nil:
		case w.ctx.Err() != nil:
			p.call.Cancel(conversation.ErrClosed)
		case p.grant.Context.Err() != nil:
			p.call.Cancel(identity.ErrRevoked)
		}
	}
}

// drain lets no more MCP requests and sessions in, and waits until those under way are answered
// or ctx ends.
func (w *work) drain(ctx context.Context) {
	w.calls.Close(nil)
	ctx, drained := context.WithCancel(ctx)
	go func() { // which ends with the last call
		w.calls.Wait()
		drained()
	}()
	<-ctx.Done()
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

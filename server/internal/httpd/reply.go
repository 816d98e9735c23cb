package httpd

import (
	"net/http"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/server/internal/conversation"
)

// A reply is how streamable HTTP answers a request or a batch. The request is handled on net/http's own
// goroutine, which then writes the answer. Only if a message comes before the answer, or the
// answer takes long, a second goroutine writes a stream.
type reply struct {
	*stream
	own     stream // the stream of a modern request, which no session keeps
	of      *streamable
	w       http.ResponseWriter
	r       *http.Request
	method  string                // of the request; "" of a batch
	session *httpSession          // its client can resume the stream; nil for a modern request
	call    *conversation.Request // nil for a batch
	batch   *conversation.Batch   // nil for a request

	followed bool           // a connection follows the stream
	writing  sync.WaitGroup // of the stream
}

// send handles the request, and answers it. A client that prefers events always gets events,
// unless the answer has a status of its own.
func (p *reply) send() {
	soon := lazily
	if p.session == nil {
		soon = longer
	}
	p.opens(p)
	awaited := time.AfterFunc(soon, p.open)
	answer := p.run()
	awaited.Stop()
	code := http.StatusOK
	if p.session == nil && answer != nil {
		code = answerStatus(answer, p.call.ID)
	}
	if answer != nil && code == http.StatusOK && prefersStream(p.r) {
		p.open()
	}
	alone := p.conclude(answer)
	if p.session != nil {
		defer p.session.trim()
	}
	p.of.work.answered(p.method)
	switch q := requestOf(p.r); {
	case p.followed:
		p.writing.Wait()
	case q.ended(p.r) && q.revoked():
		deny(p.w, p.r, nil, q.client.Revoked())
	case !alone: // the client has left
	case answer == nil:
		p.w.WriteHeader(http.StatusAccepted)
	default:
		writeJSON(p.w, p.r, code, answer)
	}
}

// run handles the request, and returns its answer, which may be nil.
func (p *reply) run() (answer []byte) {
	if p.batch != nil {
		return p.batch.Run(p.of.work.ctx)
	}
	answer = p.call.Run()
	if answer == nil && p.of.work.ctx.Err() != nil {
		answer = conversation.Refusal(p.call.ID, conversation.ErrClosed)
	}
	return answer
}

// follow has a connection follow the stream, unless the client has left: then it reports false.
func (p *reply) follow() bool {
	if requestOf(p.r).ended(p.r) {
		return false // the client does not know the stream, and can't resume it
	}
	p.followed = true
	p.writing.Go(func() { follow(p.w, p.r, p.stream, 0, p.prime) })
	return true
}

// prime begins the stream, with the event that the client of a session needs to resume it.
func (p *reply) prime(w http.ResponseWriter) error {
	if p.session == nil {
		return hello(w)
	}
	p.session.keep(p.stream)
	if p.session.conversation.Revision() < "2025-11-25" { // clients of older revisions take every event for a message
		return hello(w)
	}
	return writeNow(w, "id: "+p.eventID(0)+"\nretry: "+retry+"\ndata:\n\n")
}

// cut ends the request: its client does not read.
func (p *reply) cut() {
	p.of.log.Warn("the client does not read; its request is cancelled", zap.String("method", p.method))
	if p.batch == nil {
		p.call.Cancel(conversation.ErrUnread)
		return
	}
	for _, r := range p.batch.Requests {
		r.Cancel(conversation.ErrUnread)
	}
}

package httpd

import (
	"net/http"
	"time"
)

// A reply is how streamable HTTP answers a request. The request is handled on net/http's own
// goroutine, which then writes the answer. Only if a message comes before the answer, or the
// answer takes long, a second goroutine writes a stream.
type reply struct {
	*stream
	soon   time.Duration                   // for which the answer is awaited, and no stream begun
	status func(answer []byte) int         // of an answer that comes alone
	begin  func(http.ResponseWriter) error // begins a stream
	run    func() (answer []byte)          // handles the request; nil is no answer
	done   func()                          // called after run
}

// send handles the request, and answers it. A client that prefers events always gets events,
// unless the answer has a status of its own.
func (p *reply) send(w http.ResponseWriter, r *http.Request) {
	q := requestOf(r)
	var written chan struct{} // closed when the stream is written; nil if there is none
	p.opens(func() bool {
		if q.ended(r) {
			return false // the client does not know the stream, and can't resume it
		}
		ended := make(chan struct{})
		written = ended
		go func() {
			defer close(ended)
			follow(w, r, p.stream, 0, false, p.begin)
		}()
		return true
	})
	awaited := time.AfterFunc(p.soon, p.open)
	answer := p.run()
	awaited.Stop()
	code := http.StatusOK
	if answer != nil {
		if code = p.status(answer); code == http.StatusOK && prefersStream(r) {
			p.open()
		}
	}
	alone := p.conclude(answer)
	p.done()
	switch {
	case written != nil:
		<-written
	case q.ended(r) && q.revoked():
		refuseRevoked(w, r)
	case !alone: // the client has left
	case answer == nil:
		accepted(w)
	default:
		writeJSON(w, r, code, answer)
	}
}

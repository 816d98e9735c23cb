package httpd

import (
	"container/list"
	"net/http"
	"sync"
	"time"
)

// A reply is how streamable HTTP answers a request. The request is handled on net/http's own
// goroutine, which then writes the answer. Only if a message comes before the answer, or the
// answer takes long, a second goroutine writes a stream.
type reply struct {
	*stream
	soon   *waits                  // until then the answer is awaited, and no stream begun
	status func(answer []byte) int // of an answer that comes alone
	begin  func(*exchange) error   // begins a stream
	run    func() (answer []byte)  // handles the request; nil is no answer
	done   func()                  // called after run
}

// send handles the request, and answers it. A client that prefers events always gets events,
// unless the answer has a status of its own.
func (p *reply) send(x *exchange) {
	var written chan struct{} // closed when the stream is written; nil if there is none
	p.opens(func() bool {
		if x.ended() {
			return false // the client does not know the stream, and can't resume it
		}
		ended := make(chan struct{})
		written = ended
		go func() {
			defer close(ended)
			follow(x, p.stream, 0, false, p.begin)
		}()
		return true
	})
	awaited := p.soon.add(p.open)
	answer := p.run()
	p.soon.remove(awaited)
	code := http.StatusOK
	if answer != nil {
		if code = p.status(answer); code == http.StatusOK && prefersStream(x.r) {
			p.open()
		}
	}
	alone := p.conclude(answer)
	p.done()
	switch {
	case written != nil:
		<-written
	case x.ended() && x.revoked():
		x.refuseRevoked()
	case !alone: // the client has left
	case answer == nil:
		x.accepted()
	default:
		x.json(code, answer)
	}
}

// waits call functions after a fixed time, unless they are removed before. One timer serves all:
// a timer for each request would wake the scheduler each time. The zero value but for the time is
// ready.
type waits struct {
	time time.Duration

	mu    sync.Mutex // guards what follows
	due   list.List  // of wait, the first one first
	timer *time.Timer
	armed bool // the timer runs
}

type wait struct {
	at   time.Time
	over func()
}

// add has over be called in a goroutine when the time is over.
func (w *waits) add(over func()) *list.Element {
	at := time.Now().Add(w.time)
	w.mu.Lock()
	defer w.mu.Unlock()
	e := w.due.PushBack(wait{at, over})
	if !w.armed {
		w.arm(w.time)
	}
	return e
}

// remove forgets a wait, unless it is over.
func (w *waits) remove(e *list.Element) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.due.Remove(e)
}

// arm starts the timer. w.mu must be held.
func (w *waits) arm(d time.Duration) {
	w.armed = true
	if w.timer == nil {
		w.timer = time.AfterFunc(d, w.fire)
		return
	}
	w.timer.Reset(d)
}

// fire calls what is due, and starts the timer again if more waits. While there is none it rests.
func (w *waits) fire() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.armed = false
	for e := w.due.Front(); e != nil; e = w.due.Front() {
		next := e.Value.(wait)
		if left := time.Until(next.at); left > 0 {
			w.arm(left)
			return
		}
		w.due.Remove(e)
		next.over()
	}
}

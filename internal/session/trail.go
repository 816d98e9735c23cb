package session

import (
	"sync"
	"time"
)

// maxDelivery is how long an answer may take from its server to its client.
const maxDelivery = time.Second

// A Trail follows the answer to a request from the server to the client. If the answer is not
// written within a second, it calls Late once, in a goroutine of its own, with the step that the answer
// waits for. The zero value calls nothing; a nil Trail does nothing.
type Trail struct {
	Late func(waitsFor string)

	mu       sync.Mutex // guards the fields below
	waitsFor string
	timer    *time.Timer // runs late; nil before the server's answer
	ended    bool
}

// Answered notes that the server's answer has come.
func (t *Trail) Answered(waitsFor string) {
	if t == nil || t.Late == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.waitsFor = waitsFor
	switch {
	case t.ended:
	case t.timer == nil:
		t.timer = time.AfterFunc(maxDelivery, t.late)
	default: // the answer to another attempt
		t.timer.Reset(maxDelivery)
	}
}

// Reached notes the step that the answer waits for now.
func (t *Trail) Reached(waitsFor string) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.waitsFor = waitsFor
}

// Asks notes that the answer was a question, after which the server is asked again.
func (t *Trail) Asks() { t.stop(false) }

// End notes that the answer is written, or that no client waits for it.
func (t *Trail) End() { t.stop(true) }

func (t *Trail) stop(ended bool) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ended = t.ended || ended
	if t.timer != nil {
		t.timer.Stop()
	}
}

func (t *Trail) late() {
	t.mu.Lock()
	ended, waitsFor := t.ended, t.waitsFor
	t.mu.Unlock()
	if !ended {
		t.Late(waitsFor)
	}
}

package caller

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"time"

	"github.com/mcp-metarouter/metarouter/cluster/internal/count"
	"github.com/mcp-metarouter/metarouter/cluster/internal/frame"
	"github.com/mcp-metarouter/metarouter/cluster/internal/transfer"
	"github.com/mcp-metarouter/metarouter/internal/session"
)

const (
	// maxQuestions bounds the questions of an exchange that clients have, or with answers that are
	// kept because they may have to be sent again.
	maxQuestions = 16

	// askTimeout is how long a client may take to answer, as with local servers.
	askTimeout = 10 * time.Minute
)

var errTooManyQuestions = &session.Error{Code: session.CodeInternal, Message: "too many questions to the client are open in this call"}

// Questions are the questions of servers to the client of an exchange. They belong to the goroutine
// of the exchange. The zero value is empty.
type questions struct {
	known  []*question // in the order in which they came; the answered ones are forgotten first
	floor  uint64      // questions with an ID up to this are forgotten
	answer chan answered
}

// A question is one that the client was asked.
type question struct {
	id     uint64
	cancel context.CancelFunc // nil until the client is asked
	done   bool               // it was answered or withdrawn
	header frame.Header       // of the answer; its kind is "" without one
	source *transfer.Source
}

type answered struct {
	question *question
	result   json.RawMessage
	err      error
}

// find returns a question, nil if it is new.
func (q *questions) find(id uint64) *question {
	for _, one := range q.known {
		if one.id == id {
			return one
		}
	}
	return nil
}

// add adds a question. It returns nil if too many are open.
func (q *questions) add(id uint64) *question {
	if len(q.known) >= maxQuestions {
		if !q.forget() {
			return nil
		}
	}
	if q.answer == nil {
		q.answer = make(chan answered, maxQuestions+1)
	}
	one := &question{id: id}
	q.known = append(q.known, one)
	return one
}

// forget forgets the first question that is done.
func (q *questions) forget() bool {
	for i, one := range q.known {
		if one.done {
			q.known = append(q.known[:i], q.known[i+1:]...)
			q.floor = max(q.floor, one.id)
			return true
		}
	}
	return false
}

// cancelAll cancels the questions that clients have.
func (q *questions) cancelAll() {
	for _, one := range q.known {
		if one.cancel != nil {
			one.cancel()
		}
	}
}

// asked takes a question of the server.
func (e *exchange) asked(f *frame.Frame) {
	h := f.Header
	if h.Message == nil {
		return
	}
	id, err := strconv.ParseUint(string(h.Message.ID), 10, 64)
	if err != nil {
		return
	}
	q := &e.questions
	if one := q.find(id); one != nil {
		if one.header.Kind != "" { // the answer was lost
			_ = e.send(one.header, one.source)
		}
		return
	}
	if id <= q.floor {
		e.caller.Counts.Dropped(count.Repeated)
		return
	}
	one := q.add(id)
	if one == nil {
		one = &question{id: id}
		e.reply(one, nil, errTooManyQuestions)
		return
	}
	if h.Body == nil {
		e.ask(one, h.Message.Method, h.Message.Params)
		return
	}
	e.receive(f, func(params []byte, err error) {
		if err != nil {
			e.reply(one, nil, err)
			return
		}
		e.ask(one, h.Message.Method, params)
	})
}

// ask asks the client, on a goroutine of its own. The answer goes to e.questions.answer.
func (e *exchange) ask(one *question, method string, params json.RawMessage) {
	if one.done { // withdrawn
		return
	}
	if !isParams(params) {
		e.reply(one, nil, &session.Error{Code: session.CodeInvalidParams, Message: "the params are no JSON object on one line"})
		return
	}
	if e.from == nil || !session.Answers(e.from.Capabilities(), method) {
		e.reply(one, nil, &session.Error{Code: session.CodeMethodNotFound, Message: "the client does not offer " + method})
		return
	}
	ctx, cancel := context.WithTimeout(e.caller.life, askTimeout)
	one.cancel = cancel
	from, server, answers := e.from, e.server, e.questions.answer
	message := session.Message{ID: json.RawMessage(strconv.FormatUint(one.id, 10)), Method: method, Params: params}
	if !e.caller.start(func() {
		defer cancel()
		result, err := from.Ask(ctx, server, message)
		answers <- answered{one, result, err} // there is room for one of each question
	}) {
		cancel()
		e.reply(one, nil, errLeft)
	}
}

// reply sends the answer to a question, unless it was withdrawn.
func (e *exchange) reply(one *question, result json.RawMessage, err error) {
	if one.done {
		return
	}
	one.done = true
	id := strconv.FormatUint(one.id, 10)
	one.header = frame.Header{Kind: frame.Answer, Seq: one.id, Message: &frame.Notification{ID: json.RawMessage(id)}}
	switch own, ok := errors.AsType[*session.Error](err); {
	case ok:
		one.header.Error, one.source = longError(own, "answer-"+id)
	case err != nil:
		one.header.Error = &frame.Fault{Reason: err.Error()}
	default:
		one.source = transfer.NewSource("answer-"+id, result)
	}
	// One that is lost is sent again when the question is.
	_ = e.send(one.header, one.source)
}

// withdrawn ends a question that its server has cancelled.
func (e *exchange) withdrawn(h *frame.Header) {
	if h.Message == nil {
		return
	}
	id, err := strconv.ParseUint(string(h.Message.ID), 10, 64)
	if err != nil {
		return
	}
	if one := e.questions.find(id); one != nil {
		one.done = true
		if one.cancel != nil {
			one.cancel()
		}
	}
}

const (
	// maxOutside bounds the questions outside of calls, of all nodes, and keepAnswer is how long
	// their answers are kept.
	maxOutside = 64
	keepAnswer = 30 * time.Second
)

// askedOutside begins an exchange for a question that a server asks a client outside of its calls.
// Its frame is not verified yet. It returns nil if the client is not known at that node.
func (c *Caller) askedOutside(h *frame.Header) *exchange {
	home := c.homes.find(h.Home, h.From)
	name, ok := c.events.name(h.From, h.Server)
	if home == nil || !ok || h.Call == "" {
		return nil
	}
	c.mu.Lock()
	full := c.asked >= maxOutside
	if !full {
		c.asked++
	}
	c.mu.Unlock()
	if full {
		return nil
	}
	e := c.newExchange(h.Call, h.From, name, home.client)
	c.open(e)
	if c.start(func() { e.answerOutside(home) }) {
		return e
	}
	c.close(e)
	c.outsideEnded()
	return nil
}

func (c *Caller) outsideEnded() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked--
}

// answerOutside handles the frames of a question outside of calls.
func (e *exchange) answerOutside(home *home) {
	defer e.caller.outsideEnded()
	defer e.stop()
	lost := e.caller.Lost(e.to)
	var wake time.Time
	for end := time.Now().Add(keepAnswer); ; {
		if wake.IsZero() || end.Before(wake) {
			wake = end
		}
		timer := time.NewTimer(time.Until(wake))
		select {
		case <-e.in.came:
			for _, f := range e.in.take() {
				if f.Header.Kind == frame.Part {
					e.part(f)
				} else if !e.caller.verified(f) {
					if len(e.questions.known) == 0 { // it was begun by a forged frame
						timer.Stop()
						return
					}
				} else {
					e.common(f)
				}
			}
			if e.questions.open() {
				end = time.Now().Add(askTimeout + keepAnswer)
			}
		case a := <-e.questions.answer:
			e.reply(a.question, a.result, a.err)
			end = time.Now().Add(keepAnswer)
		case <-timer.C:
			if !time.Now().Before(end) {
				return
			}
		case <-lost:
		case <-home.life.Done():
		case <-e.caller.life.Done():
		}
		timer.Stop()
		select {
		case <-lost:
			return
		case <-home.life.Done():
			return
		case <-e.caller.life.Done():
			return
		default:
		}
		wake = e.advance(time.Now())
	}
}

// open reports whether a question has no answer yet.
func (q *questions) open() bool {
	for _, one := range q.known {
		if !one.done {
			return true
		}
	}
	return false
}

// common handles a verified frame that calls and questions outside of calls have.
func (e *exchange) common(f *frame.Frame) {
	switch f.Header.Kind {
	case frame.Question:
		e.asked(f)
	case frame.Cancel:
		e.withdrawn(&f.Header)
	case frame.Pull:
		e.pulled(&f.Header)
	}
}

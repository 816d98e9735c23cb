package callee

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/mcp-metarouter/metarouter/cluster/internal/frame"
	"github.com/mcp-metarouter/metarouter/internal/session"
)

const (
	// maxOpen bounds the questions of a call that have no answer yet, maxQuestion their size, and
	// maxAsking the questions of a gateway's clients outside of calls.
	maxOpen     = 16
	maxQuestion = 16 << 20
	maxAsking   = 64

	// A question is sent again after repeatFirst, then each time later, at most repeatLast.
	repeatFirst = 2 * time.Second
	repeatLast  = 30 * time.Second
)

var errTooManyQuestions = &session.Error{Code: session.CodeInternal, Message: "too many questions wait for clients of another node, or the client has left"}

// questions are the open questions of a call. The zero value is empty.
type questions struct {
	mu    sync.Mutex // guards the fields below
	last  uint64
	bytes int
	open  map[uint64]chan answer // each receives one
}

type answer struct {
	result json.RawMessage
	err    error
}

// add returns the ID of a new question, and the channel of its answer.
func (q *questions) add(size int) (id uint64, came chan answer, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.open) >= maxOpen || q.bytes+size > maxQuestion {
		return 0, nil, false
	}
	if q.open == nil {
		q.open = make(map[uint64]chan answer)
	}
	q.last++
	q.bytes += size
	came = make(chan answer, 1)
	q.open[q.last] = came
	return q.last, came, true
}

// end removes a question that add has added.
func (q *questions) end(id uint64, size int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.open, id)
	q.bytes -= size
}

// claim returns the channel for the answer of a question, nil if it has an answer or does not
// exist.
func (q *questions) claim(id uint64) chan answer {
	q.mu.Lock()
	defer q.mu.Unlock()
	came := q.open[id]
	delete(q.open, id)
	return came
}

// ask asks the client, and waits for its answer.
func (c *call) ask(ctx context.Context, capabilities json.RawMessage, server string, m session.Message) (json.RawMessage, error) {
	if !session.Answers(capabilities, m.Method) {
		return nil, &session.Error{Code: session.CodeMethodNotFound, Message: "the client does not offer " + m.Method}
	}
	id, came, ok := c.asked.add(len(m.Params))
	if !ok {
		c.callee.drop("questions")
		return nil, errTooManyQuestions
	}
	defer c.asked.end(id, len(m.Params))
	name := strconv.FormatUint(id, 10)
	o := &outgoing{header: frame.Header{
		Kind: frame.Question, Home: c.home, Server: server,
		Message: &frame.Notification{ID: json.RawMessage(name), Method: m.Method},
	}}
	o.setParams(slices.Clone(m.Params), "question-"+name)
	c.mu.Lock()
	if c.state != running && c.state != asking {
		c.mu.Unlock()
		return nil, errNoQuestions
	}
	over := c.ctx
	c.seq++
	o.header.Seq = c.seq
	c.addSource(o.source)
	start := c.out.must(o, o.size())
	c.mu.Unlock()
	defer c.removeSource(o.source)
	if start {
		c.out.drain(c.transmit)
	}
	result, err, answered := c.awaitAnswer(ctx, over, o, came)
	if !answered {
		c.send(&outgoing{header: frame.Header{Kind: frame.Cancel, Home: c.home, Message: &frame.Notification{ID: json.RawMessage(name), Method: m.Method}}})
	}
	return result, err
}

// awaitAnswer waits for an answer, and sends the question again from time to time.
func (c *call) awaitAnswer(ctx, over context.Context, o *outgoing, came <-chan answer) (result json.RawMessage, err error, answered bool) {
	pause := repeatFirst
	timer := time.NewTimer(pause)
	defer timer.Stop()
	for {
		select {
		case a := <-came:
			return a.result, a.err, true
		case <-ctx.Done():
			return nil, context.Cause(ctx), false
		case <-over.Done():
			return nil, errOver, false
		case <-timer.C:
			c.send(o)
			pause = min(2*pause, repeatLast)
			timer.Reset(pause)
		}
	}
}

var errOver = errors.New("the call to which the question belongs is over")

// answered takes an answer to a question, the first one.
func (c *call) answered(f *frame.Frame) {
	if f.Header.Message == nil || f.Header.Body == nil && f.Header.Error == nil {
		c.callee.drop("malformed")
		return
	}
	id, err := strconv.ParseUint(string(f.Header.Message.ID), 10, 64)
	if err != nil {
		c.callee.drop("malformed")
		return
	}
	came := c.asked.claim(id)
	if came == nil {
		return // it was answered, or withdrawn
	}
	if f.Header.Body == nil {
		came <- answer{err: errorOf(f.Header.Error)}
		return
	}
	c.mu.Lock()
	ctx := c.ctx
	c.mu.Unlock()
	if !c.callee.start(func() { came <- c.collectAnswer(ctx, f) }) {
		came <- answer{err: errClosed}
	}
}

// collectAnswer returns the answer that a frame announces.
func (c *call) collectAnswer(ctx context.Context, f *frame.Frame) answer {
	data, err := c.collect(ctx, f)
	switch {
	case err != nil:
		return answer{err: err}
	case f.Header.Error == nil && len(data) > 0 && isParams(data):
		return answer{result: data}
	case f.Header.Error == nil:
		return answer{err: &session.Error{Code: session.CodeInternal, Message: "the client's answer is invalid"}}
	}
	own := new(session.Error)
	if err := json.Unmarshal(data, own); err != nil {
		return answer{err: errorOf(f.Header.Error)}
	}
	return answer{err: own}
}

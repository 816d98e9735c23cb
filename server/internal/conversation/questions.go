package conversation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"

	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/wire"
)

// A reply is a client's answer to a question.
type reply struct {
	result json.RawMessage
	err    error
}

// questions are requests of servers that a legacy client was asked and has not
// answered yet. The zero value is ready.
type questions struct {
	mu     sync.Mutex // guards the fields below
	closed bool       // no more questions
	last   int64      // the id of the last question
	open   map[int64]chan reply
}

// startAnew makes the ids of questions others than the ids of a router that asked the client before.
func (q *questions) startAnew() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.last = rand.Int64N(1<<20) << 32 // within the integers of JavaScript
}

// ask puts a question of a server to a legacy client on w, and waits for the
// answer. If ctx ends first, the question is withdrawn.
func (q *questions) ask(ctx context.Context, c *Conversation, w Writer, server string, m session.Message) (json.RawMessage, error) {
	if !session.Answers(c.Capabilities(), m.Method) {
		return nil, cannotAnswer(m.Method)
	}
	params, err := wire.ParseObject(c.clients.attributed(server, m))
	if err != nil {
		return nil, session.InvalidParams("params: " + err.Error())
	}
	answer := make(chan reply, 1)
	q.mu.Lock()
	if q.closed {
		q.mu.Unlock()
		return nil, ErrClosed
	}
	q.last++
	id := q.last
	if q.open == nil {
		q.open = make(map[int64]chan reply)
	}
	q.open[id] = answer
	q.mu.Unlock()
	defer func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		delete(q.open, id)
	}()
	if err := w.Send(wire.AppendRequest(nil, id, m.Method, params)); err != nil {
		return nil, err
	}
	select {
	case r := <-answer:
		return r.result, r.err
	case <-ctx.Done():
		withdrawn := session.Message{Method: "notifications/cancelled", Params: fmt.Appendf(nil, `{"requestId":%d}`, id)}
		if Notify(w, withdrawn) != nil { // the request that it came with was answered meanwhile
			Notify(c.writer, withdrawn)
		}
		return nil, context.Cause(ctx)
	}
}

// answered takes the client's answer to a question.
func (q *questions) answered(m wire.Message) {
	id, err := strconv.ParseInt(string(m.ID), 10, 64)
	if err != nil {
		return
	}
	r := reply{result: m.Result}
	if m.Error != nil {
		e := new(session.Error)
		if json.Unmarshal(m.Error, e) != nil {
			e = &session.Error{Code: session.CodeInternal, Message: "the client answered with an error that is not a JSON-RPC error object"}
		}
		r.err = e
	} else if !wire.IsObject(m.Result) {
		r.err = session.Internal("the client answered with a result that is not an object")
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if answer := q.open[id]; answer != nil {
		delete(q.open, id)
		answer <- r
	}
}

// close fails the open questions and takes no more.
func (q *questions) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	for _, answer := range q.open {
		answer <- reply{err: errLeft}
	}
	clear(q.open)
}

var errLeft = session.Internal("the client has left")

// errEnded is the error of a question after the answer to its request.
var errEnded = errors.New("the request has ended")

func cannotAnswer(method string) error {
	return &session.Error{Code: session.CodeMethodNotFound, Message: "the client does not support " + method}
}

// attributed returns the parameters of a server's question. A person who is asked
// for something must see which server asks.
func (cs *Clients) attributed(server string, m session.Message) json.RawMessage {
	if m.Method != "elicitation/create" || cs.Raw != nil {
		return m.Params
	}
	message, ok := wire.String(wire.Member(m.Params, "message"))
	if !ok {
		return m.Params
	}
	return wire.SetMember(m.Params, "message", wire.AppendString(nil, server+": "+message))
}

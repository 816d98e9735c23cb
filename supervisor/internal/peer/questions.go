package peer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/supervisor/internal/signal"
)

const (
	// askTimeout is how long a client may take to answer a server. Often a person
	// has to.
	askTimeout = 10 * time.Minute

	// maxQuestions bounds the requests of one server that have no answer yet.
	maxQuestions = 64
)

// Questions are the requests of a server to its client that have no answer yet.
type Questions struct {
	conn *Conn
	host Host

	mu        sync.Mutex // guards the fields below
	open      map[string]*question
	answering int           // goroutines that get an answer, also of questions that were withdrawn
	calm      chan struct{} // closed when answering becomes 0, then replaced
	rootsSent bool          // the server has got a client's roots
}

// A question is a request of the server, by its id in Questions.open.
type question struct{ cancel context.CancelFunc }

func newQuestions(c *Conn, h Host) *Questions {
	return &Questions{conn: c, host: h, open: make(map[string]*question), calm: make(chan struct{})}
}

// answer gets the server's request answered by the client that it is meant for. It
// does not wait for the answer.
func (q *Questions) answer(m wire.Message, origin int64) error {
	if !session.IsAsk(m.Method) {
		return q.conn.respond(m.ID, nil, &session.Error{Code: session.CodeMethodNotFound, Message: "this client does not offer " + m.Method})
	}
	q.host.Asked(m.Method)
	ctx, cancel := context.WithTimeout(q.conn.life, askTimeout)
	one, err := q.add(string(m.ID), cancel)
	if err != nil {
		cancel()
		if errors.Is(err, errTooMany) {
			return q.conn.respond(m.ID, nil, &session.Error{Code: session.CodeInternal, Message: err.Error()})
		}
		return err
	}
	if !q.conn.Go(func() {
		defer q.answered()
		defer cancel()
		result, err := q.ask(ctx, m, origin)
		if q.remove(string(m.ID), one, err == nil && m.Method == "roots/list") {
			q.conn.respond(m.ID, result, err)
		}
	}) {
		cancel()
		q.remove(string(m.ID), one, false)
		q.answered()
		return errors.New("the session has ended")
	}
	return nil
}

var errTooMany = fmt.Errorf("%d requests of this server are not answered yet", maxQuestions)

// add registers a question.
func (q *Questions) add(id string, cancel context.CancelFunc) (*question, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.open[id] != nil:
		return nil, errors.New("the request's id is in use")
	case len(q.open) == maxQuestions:
		return nil, errTooMany
	}
	one := &question{cancel}
	q.open[id] = one
	q.answering++
	return one, nil
}

// remove strikes a question off. It reports whether the question was still open: a
// withdrawn one gets no answer, and another may have its id. roots says that its
// answer are a client's roots.
func (q *Questions) remove(id string, one *question, roots bool) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.rootsSent = q.rootsSent || roots
	if q.open[id] != one {
		return false
	}
	delete(q.open, id)
	return true
}

// answered notes that a goroutine has done with its question.
func (q *Questions) answered() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.answering--; q.answering == 0 {
		close(q.calm)
		q.calm = make(chan struct{})
	}
}

// ask sends a request of the server to its client.
func (q *Questions) ask(ctx context.Context, m wire.Message, origin int64) (json.RawMessage, error) {
	from := q.conn.Calls.client(origin)
	owner := q.host.Owner(ctx)
	switch {
	case owner == nil && m.Method == "roots/list":
		return nil, q.refusal("it serves several clients, and the roots of one are not shown to the others")
	case from == nil && owner == nil:
		return nil, q.refusal("no request, or requests of several clients are under way, so it is unknown which client is meant")
	case from == nil:
		from = owner
	}
	return from.Ask(ctx, q.host.Server, session.Message{ID: m.ID, Method: m.Method, Params: m.Params})
}

func (q *Questions) refusal(why string) error {
	return &session.Error{Code: session.CodeInternal, Message: fmt.Sprintf(
		"the router can't pass this request of server %q on: %s; from its next session on, each client gets a process of its own", q.host.Server, why)}
}

// withdraw ends a question that the server has cancelled.
func (q *Questions) withdraw(id json.RawMessage) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if one := q.open[string(id)]; one != nil {
		delete(q.open, string(id))
		one.cancel()
	}
}

// RootsSent reports whether the server has got a client's roots.
func (q *Questions) RootsSent() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.rootsSent
}

// AwaitRoots waits until the server has got its client's roots, or ctx ends, and
// reports whether it has.
func (q *Questions) AwaitRoots(ctx context.Context) bool {
	for {
		q.mu.Lock()
		sent, calm := q.rootsSent, q.calm
		q.mu.Unlock()
		if sent {
			return true
		}
		select {
		case <-calm: // a question was answered
		case <-q.conn.Done():
			return false
		case <-ctx.Done():
			return false
		}
	}
}

// AwaitCalm waits until no question is being answered. It reports whether that was
// before ctx and the session ended.
func (q *Questions) AwaitCalm(ctx context.Context) bool {
	q.mu.Lock()
	answering, calm := q.answering, q.calm
	q.mu.Unlock()
	if answering > 0 {
		select {
		case <-calm:
		case <-q.conn.Done():
		case <-ctx.Done():
		}
	}
	return ctx.Err() == nil && !signal.IsClosed(q.conn.Done())
}

package peer

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
	"golang.org/x/time/rate"

	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/signal"
	"github.com/mcp-metarouter/metarouter/internal/wire"
)

const (
	// askTimeout is how long a client may take to answer a server. Often a person
	// has to.
	askTimeout = 10 * time.Minute

	// maxAsked bounds the questions of a session that its client has at a time. Others
	// wait, until there are maxQuestions, or maxQuestionBytes together.
	maxAsked         = 4
	maxQuestions     = 16
	maxQuestionBytes = 16 << 20

	// maxDeclined is after how many declined questions no more are asked in a call.
	maxDeclined = 3

	// codeRejected is the error for a person who rejects sampling ("User rejected
	// sampling request: -1", 2025-11-25, client/sampling#error-handling).
	codeRejected = -1
)

// The rules for questions, as servers and people read them. See also [Limits].
var (
	errNoCall   = errors.New("a server may ask its client only while a request of that client is under way; a call of the router's page or of a Go program has no client")
	errTooMany  = fmt.Errorf("a server may ask %d questions at a time, with others waiting up to %d or %d MiB", maxAsked, maxQuestions, maxQuestionBytes>>20)
	errDeclined = fmt.Errorf("after %d declined questions, the rest of the call's questions are declined without asking", maxDeclined)
	errRoots    = fmt.Errorf("a server may ask for the roots %d times a minute, and once at a time", maxRoots)
)

// Questions are the requests of a server to its client that have no answer yet.
type Questions struct {
	conn  *Conn
	seats *semaphore.Weighted // of maxAsked, for each question that the client has, but for roots

	mu        sync.Mutex // guards the fields below
	open      map[string]*question
	bytes     int           // of the questions being answered
	answering int           // goroutines that get an answer, also of questions that were withdrawn
	calm      signal.Change // of answering to 0
	rootsSent bool          // the server has got a client's roots

	noted   sync.Map            // methods that the host knows the server to ask
	routine *semaphore.Weighted // of 1, while a question for roots outside a call is answered
	roots   *rate.Limiter       // of these
}

// A question is a request of the server.
type question struct {
	message wire.Message
	cancel  context.CancelFunc
	call    *pendingRequest // during which it came; may be nil
	from    session.Client  // that is meant; nil if that can't be known from the calls
	routine bool            // for roots, and outside a call
	noRoots bool            // it is answered with an empty list, since no client with roots is meant
}

// answer gets the server's request answered by the client that it is meant for. It
// does not wait for the answer.
func (q *Questions) answer(m wire.Message, origin int64) error {
	if !session.IsAsk(m.Method) {
		q.conn.respond(m.ID, nil, &session.Error{Code: session.CodeMethodNotFound, Message: "this client does not offer " + m.Method})
		return nil
	}
	if _, again := q.noted.LoadOrStore(m.Method, nil); !again {
		q.conn.host.Asked(m.Method)
	}
	ctx, cancel := context.WithTimeout(q.conn.Context(), askTimeout)
	one := &question{message: m, cancel: cancel}
	one.call, one.from = q.conn.Calls.asker(origin)
	if err := q.add(one); err != nil {
		cancel()
		if errors.Is(err, errIDInUse) {
			return err
		}
		result, refusal := q.refuse(m.Method, err)
		q.conn.respond(m.ID, result, refusal)
		return nil
	}
	q.conn.Go(func() {
		defer q.answered(one)
		defer cancel()
		result, err := q.ask(ctx, one)
		if q.remove(one, err == nil) {
			q.conn.respond(m.ID, result, err)
		}
	})
	return nil
}

// refuse returns the answer to a question that a rule forbids.
func (q *Questions) refuse(method string, rule error) (json.RawMessage, error) {
	q.conn.host.Limits.note(rule)
	switch {
	case !errors.Is(rule, errDeclined):
		return nil, session.Internal(fmt.Sprintf("metarouter refuses this %s of server %q: %s", method, q.conn.host.Server, rule))
	case method == "elicitation/create":
		return json.RawMessage(`{"action":"decline"}`), nil
	}
	return nil, &session.Error{Code: codeRejected, Message: "User rejected sampling request: " + rule.Error()}
}

var errIDInUse = errors.New("the request's id is in use")

// add registers a question, unless a rule forbids it.
func (q *Questions) add(one *question) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	m := one.message
	if q.open[string(m.ID)] != nil {
		return errIDInUse
	}
	err := errTooMany
	if q.answering < maxQuestions && (q.answering == 0 || q.bytes+len(m.Params) <= maxQuestionBytes) {
		err = q.allow(one)
	}
	if err != nil {
		return err
	}
	q.open[string(m.ID)] = one
	q.bytes += len(m.Params)
	q.answering++
	return nil
}

// allow reports the rule that forbids a question now, and notes questions for roots. q.mu must be held.
func (q *Questions) allow(one *question) error {
	switch {
	case one.message.Method == "roots/list":
		one.routine = !q.conn.Calls.takeRoots(one.call) // each call may ask once
	case one.call == nil:
		return errNoCall
	case one.call.declined.Load() >= maxDeclined:
		return errDeclined
	}
	return nil
}

// remove strikes a question off. It reports whether the question was still open: a
// withdrawn one gets no answer, and another may have its id.
func (q *Questions) remove(one *question, succeeded bool) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.open[string(one.message.ID)] != one {
		return false
	}
	delete(q.open, string(one.message.ID))
	q.rootsSent = q.rootsSent || succeeded && one.message.Method == "roots/list" && !one.noRoots
	return true
}

// answered notes that a goroutine has done with its question.
func (q *Questions) answered(one *question) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.bytes -= len(one.message.Params)
	if q.answering--; q.answering == 0 {
		q.calm.Notify()
	}
}

// ask sends a request of the server to its client.
func (q *Questions) ask(ctx context.Context, one *question) (json.RawMessage, error) {
	m := session.Message{Method: one.message.Method, Params: one.message.Params}
	if one.routine {
		if q.routine.Acquire(ctx, 1) != nil {
			return nil, context.Cause(ctx)
		}
		defer q.routine.Release(1)
		if rule := q.conn.host.Limits.wait(ctx, q.roots, errRoots); rule != nil {
			return q.refuse(m.Method, rule)
		}
		if ctx.Err() != nil { // it was withdrawn meanwhile
			return nil, context.Cause(ctx)
		}
	}
	if m.Method == "roots/list" {
		from := q.conn.host.Owner() // nil if it serves several clients: the roots of one are not shown to the others
		if from != nil {
			from = cmp.Or(one.from, from)
		}
		if result, fixed := q.conn.host.Roots.answer(from); result != nil {
			one.noRoots = !fixed
			return result, nil
		}
		return from.Ask(ctx, q.conn.host.Server, m)
	}
	from := cmp.Or(one.from, q.conn.host.Owner())
	if from == nil {
		return nil, session.Internal(fmt.Sprintf("the router can't pass this request of server %q on: requests of several clients are under way, "+
			"so it is unknown which client is meant; from its next session on, each client gets a process of its own", q.conn.host.Server))
	}
	if rule := q.conn.host.Limits.take(ctx); rule != nil {
		return q.refuse(m.Method, rule)
	}
	waits := !q.seats.TryAcquire(1)
	if waits && q.seats.Acquire(ctx, 1) != nil {
		return nil, context.Cause(ctx)
	}
	defer q.seats.Release(1)
	if waits && q.conn.Calls.get(one.call.id) == nil { // it ended meanwhile
		return q.refuse(m.Method, errNoCall)
	}
	if one.call.declined.Load() >= maxDeclined {
		return q.refuse(m.Method, errDeclined)
	}
	result, err := from.Ask(ctx, q.conn.host.Server, m)
	if isDeclined(m.Method, result, err) {
		one.call.declined.Add(1)
	}
	return result, err
}

// isDeclined reports whether a client, or the person who uses it, has declined a
// question: by an answer that is no acceptance, or by an error. A client that lacks the
// method was not asked.
func isDeclined(method string, result json.RawMessage, err error) bool {
	if e, ok := errors.AsType[*session.Error](err); ok {
		return e.Code != session.CodeMethodNotFound
	}
	action, _ := wire.String(wire.Member(result, "action"))
	return err == nil && method == "elicitation/create" && action != "accept"
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

// AwaitRoots waits until the server has got its client's roots, and reports whether that was
// before ctx and the session ended.
func (q *Questions) AwaitRoots(ctx context.Context) bool {
	return q.await(ctx, func() bool { return q.rootsSent })
}

// AwaitCalm waits until no question is being answered, and reports whether that was before ctx
// and the session ended.
func (q *Questions) AwaitCalm(ctx context.Context) bool {
	return q.await(ctx, func() bool { return q.answering == 0 })
}

// await waits until is returns true, which is called with q.mu held whenever all questions were answered.
func (q *Questions) await(ctx context.Context, is func() bool) bool {
	for ctx.Err() == nil && q.conn.Cause() == nil {
		q.mu.Lock()
		over, calm := is(), q.calm.Next()
		q.mu.Unlock()
		if over {
			return true
		}
		select {
		case <-calm:
		case <-q.conn.Done():
		case <-ctx.Done():
		}
	}
	return false
}

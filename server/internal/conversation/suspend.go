package conversation

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/signal"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/server/internal/budget"
)

const (
	// suspendTime is how long a suspended request waits for its client.
	suspendTime = 10 * time.Minute

	// maxSuspended bounds the suspended requests of one principal, and
	// maxAllSuspended the requests of all, in all servers of the router.
	maxSuspended    = 100
	maxAllSuspended = 1000
)

// suspensions are the requests that wait for their clients to come back.
type suspensions struct {
	sealer sealer        // of the requestState
	quota  *budget.Quota // of those in byID, by principal

	mu    sync.Mutex // guards the fields below
	byID  map[uint64]*suspension
	last  uint64
	ended bool // no more are suspended
}

// newSuspensions takes the key of 32 bytes that seals the state that clients keep, and the prefix of
// that state.
func newSuspensions(key []byte, prefix string, q *budget.Quota) *suspensions {
	return &suspensions{sealer: newSealer(key, prefix), quota: q, byID: make(map[uint64]*suspension)}
}

// handle handles a request of a modern client, or goes on with a suspended one.
func (all *suspensions) handle(r *Request) (json.RawMessage, error) {
	if address := all.elsewhere(r); address != "" {
		return r.clients.Pass(r.ctx, address, r)
	}
	s, err := all.resume(r)
	if err != nil {
		return nil, err
	}
	if s == nil { // which is not so for a request that was passed on
		s = start(r)
	}
	defer askThrough(r, nil)
	select {
	case <-s.finished:
		all.remove(s)
		return s.result, s.err
	case <-s.news:
		result, err := all.suspend(s)
		if err == nil {
			r.waiting = s
		}
		return result, err
	case <-r.ctx.Done():
	}
	all.giveUp(context.Cause(r.ctx), s)
	return nil, context.Cause(r.ctx)
}

// askThrough lets s ask the client in the answer to this request; with nil, the answer
// holds no questions any more.
func askThrough(r *Request, s *suspension) {
	r.Requests.setAsker(r, s)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.askable.Notify()
}

// suspend answers the client with the open questions of the server.
func (all *suspensions) suspend(s *suspension) (json.RawMessage, error) {
	all.mu.Lock()
	if all.ended {
		all.mu.Unlock()
		all.giveUp(ErrClosed, s)
		return nil, ErrClosed
	}
	if _, known := all.byID[s.id]; !known {
		if !all.quota.Take(s.principal) {
			all.mu.Unlock()
			err := Internal("busy: too many requests wait for their clients' input")
			all.giveUp(err, s)
			return nil, err
		}
		all.last++
		s.id = all.last
		all.byID[s.id] = s
	}
	all.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	requests := s.show()
	s.current = nil
	s.expiry = time.AfterFunc(suspendTime, func() { all.expire(s) })
	state := all.sealer.seal(s.id, s.fingerprint, time.Now().Add(suspendTime))
	if address := s.last.clients.Address; address != nil && s.last.Visitor {
		state = strings.TrimSuffix(state+"@"+address(), "@")
	}
	return fmt.Appendf(nil, `{"resultType":"input_required","inputRequests":%s,"requestState":%q}`, requests, state), nil
}

// resume returns the suspended request that this one goes on with, nil if it is a
// new one.
func (all *suspensions) resume(r *Request) (*suspension, error) {
	if all.stateOf(r.Message) == "" {
		return nil, nil
	}
	s := all.find(r.Message)
	if s == nil || s.fingerprint != fingerprintOf(r) {
		return nil, ErrNotResumed
	}
	if !reflect.DeepEqual(s.rules, r.clients.Rules()) { // it may not be allowed any more
		all.giveUp(ErrNotResumed, s)
		return nil, ErrNotResumed
	}
	if err := s.resumeWith(r); err != nil {
		return nil, err
	}
	askThrough(r, s)
	return s, nil
}

// ErrNotResumed is the error of a request that goes on with no suspended one.
var ErrNotResumed = InvalidParams("the requestState is not valid for this request, or has expired; send the request again without it")

// giveUp cancels requests that are suspended or were about to be, and waits for
// their end.
func (all *suspensions) giveUp(cause error, given ...*suspension) {
	for _, s := range given {
		s.cancel(cause)
	}
	for _, s := range given {
		<-s.finished
		all.remove(s)
	}
}

// abandon gives up the suspended requests that these clients sent last.
func (all *suspensions) abandon(those func(*Conversation) bool) {
	var given []*suspension
	all.mu.Lock()
	for _, s := range all.byID {
		if those(s.latest().Conversation) {
			given = append(given, s)
		}
	}
	all.mu.Unlock()
	all.giveUp(ErrClosed, given...)
}

// end gives up all suspended requests, and those that are about to be from now on.
func (all *suspensions) end() {
	all.mu.Lock()
	all.ended = true
	all.mu.Unlock()
	all.abandon(func(*Conversation) bool { return true })
}

// expire gives up a request that is still suspended.
func (all *suspensions) expire(s *suspension) {
	s.mu.Lock()
	waited := s.current != nil
	s.mu.Unlock()
	if !waited {
		s.cancel(errors.New("the client did not come back with its input"))
		all.remove(s)
	}
}

func (all *suspensions) remove(s *suspension) {
	all.mu.Lock()
	defer all.mu.Unlock()
	if all.byID[s.id] == s {
		delete(all.byID, s.id)
		all.quota.Release(s.principal)
	}
}

// fingerprintOf ties a suspended request to those that go on with it.
func fingerprintOf(r *Request) [sha256.Size]byte {
	params := r.BareParams()
	for _, own := range []string{"inputResponses", "requestState"} {
		params = wire.DeleteMember(params, own)
	}
	principal := r.Principal
	if r.clients.Raw != nil { // it begins with the key of the node, and the client may have several gateways
		_, principal, _ = strings.Cut(principal, "/")
	}
	return sha256.Sum256(fmt.Appendf(nil, "%s\x00%s\x00%s", principal, r.Method, params))
}

// A suspension is a request to a server that outlives the requests of its client
// that wait for it, one after the other. It is the server's [session.Client].
type suspension struct {
	id          uint64
	principal   string // of the client
	fingerprint [sha256.Size]byte
	rules       any // under which it began
	cancel      context.CancelCauseFunc
	finished    chan struct{} // closed when result and err are set
	result      json.RawMessage
	err         error

	mu        sync.Mutex // guards the fields below
	current   *Request   // the request that waits for it; nil while suspended
	last      *Request   // the request that waited last
	questions map[string]*question
	asked     int
	news      chan struct{} // holds a signal when there is a question that no answer has shown
	expiry    *time.Timer
}

// A question is a server's request to the client.
type question struct {
	server  string
	message session.Message
	answer  chan reply
}

// start handles a request in a goroutine of its own, whether or not it will be
// suspended. The caller of handle or giveUp waits for the goroutine.
func start(r *Request) *suspension {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(r.ctx))
	s := &suspension{
		principal: r.Principal, fingerprint: fingerprintOf(r), rules: r.clients.Rules(), cancel: cancel, current: r, last: r,
		finished: make(chan struct{}), questions: make(map[string]*question), news: make(chan struct{}, 1),
	}
	askThrough(r, s)
	go func() {
		defer cancel(nil)
		s.run(ctx, r)
		close(s.finished)
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, q := range s.questions {
			q.answer <- reply{err: errEnded}
		}
		clear(s.questions)
	}()
	return s
}

func (s *suspension) run(ctx context.Context, r *Request) {
	defer func() {
		if p := recover(); p != nil {
			s.err = panicked(r, p)
		}
	}()
	s.result, s.err = r.how.Handle(ctx, Call{r, s})
}

// show returns the open questions as the inputRequests of a result. s.mu must be
// held.
func (s *suspension) show() []byte {
	requests := []byte{'{'}
	for _, key := range slices.Sorted(maps.Keys(s.questions)) {
		q := s.questions[key]
		if len(requests) > 1 {
			requests = append(requests, ',')
		}
		requests = append(wire.AppendString(requests, key), ':')
		requests = fmt.Appendf(requests, `{"method":%q`, q.message.Method)
		if params := s.last.clients.attributed(q.server, q.message); params != nil {
			requests = append(append(requests, `,"params":`...), params...)
		}
		requests = append(requests, '}')
	}
	return append(requests, '}')
}

// resumeWith takes the answers in a request that goes on with this one.
func (s *suspension) resumeWith(r *Request) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current != nil {
		return InvalidParams("the requestState was used already")
	}
	responses := wire.Member(r.Params, "inputResponses")
	if responses != nil && !wire.IsObject(responses) {
		return InvalidParams("inputResponses must be an object")
	}
	for key, q := range s.questions {
		answer := wire.Member(responses, key)
		switch {
		case answer == nil:
		case !wire.IsObject(answer):
			return InvalidParams("the inputResponse " + key + " must be an object")
		default:
			q.answer <- reply{result: answer}
			delete(s.questions, key)
		}
	}
	s.expiry.Stop()
	s.current, s.last = r, r
	if len(s.questions) > 0 {
		signal.Leave(s.news)
	}
	return nil
}

func (s *suspension) latest() *Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last
}

// Home implements [session.Client].
func (s *suspension) Home() session.Client { return s.latest().Home() }

// Caller returns who is behind the client, for [session.CallerOf].
func (s *suspension) Caller() session.Caller { return s.latest().Caller() }

// ClientName implements [session.Client].
func (s *suspension) ClientName() string { return s.latest().ClientName() }

// Modern implements [session.Client].
func (s *suspension) Modern() bool { return true }

// Capabilities implements [session.Client].
func (s *suspension) Capabilities() json.RawMessage { return s.latest().Capabilities() }

// Notify implements [session.Client]. While no request waits, the message is lost.
func (s *suspension) Notify(server string, m session.Message) {
	s.mu.Lock()
	r := s.current
	s.mu.Unlock()
	if r == nil {
		return
	}
	if m.Method == progressMethod {
		token := wire.Member(r.Meta, "progressToken") // r need not be the request that began it
		if token == nil {
			return
		}
		m.Params = wire.SetMember(m.Params, "progressToken", token)
	}
	r.Notify(server, m)
}

// Ask implements [session.Client].
func (s *suspension) Ask(ctx context.Context, server string, m session.Message) (json.RawMessage, error) {
	if !session.Answers(s.Capabilities(), m.Method) {
		return nil, cannotAnswer(m.Method)
	}
	q := &question{server: server, message: m, answer: make(chan reply, 1)}
	s.mu.Lock()
	select {
	case <-s.finished:
		s.mu.Unlock()
		return nil, errEnded
	default:
	}
	s.asked++
	key := fmt.Sprintf("input-%d", s.asked)
	s.questions[key] = q
	signal.Leave(s.news)
	s.mu.Unlock()
	select {
	case a := <-q.answer:
		return a.result, a.err
	case <-ctx.Done():
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.questions, key)
		return nil, context.Cause(ctx)
	}
}

package conversation

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/signal"
	"github.com/mcp-metarouter/metarouter/internal/wire"
)

// A suspension is a request to a server that outlives the requests of its client
// that wait for it, one after the other. It is the server's [session.Client].
type suspension struct {
	state       string // the requestState by which its client comes back, without an address; random
	principal   string // of the client
	size        int    // bytes that the budget counts; guarded by mu of suspensions
	fingerprint [sha256.Size]byte
	rules       any // under which it began
	cancel      context.CancelCauseFunc
	finished    chan struct{} // closed when result and err are set
	result      json.RawMessage
	err         error

	news chan struct{} // holds a signal when there is a question that no answer has shown

	mu        sync.Mutex // guards the fields below
	held      bool       // questions are not shown yet, since others may follow
	givenUp   bool       // no request goes on with it
	current   *Request   // the request that waits for it; nil while suspended
	last      *Request   // the request that waited last
	questions map[string]*question
	asked     int // questions
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
func (s *suspension) start(r *Request) {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(r.ctx))
	s.cancel = cancel
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
}

func (s *suspension) run(ctx context.Context, r *Request) {
	defer func() {
		if p := recover(); p != nil {
			s.err = r.Panicked(p)
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
		request := fmt.Appendf(nil, `{"method":%q`, q.message.Method)
		if params := s.last.clients.attributed(q.server, q.message); params != nil {
			request = wire.AppendMember(request, "params", params)
		}
		requests = wire.AppendMember(requests, key, append(request, '}'))
	}
	return append(requests, '}')
}

// resumeWith takes the answers in a request that goes on with this one.
func (s *suspension) resumeWith(r *Request) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.givenUp {
		return ErrNotResumed
	}
	if signal.IsClosed(s.finished) {
		return nil // its end is the answer to this request too
	}
	if s.current != nil {
		return session.InvalidParams("the requestState was used already")
	}
	responses := wire.Member(r.Params, "inputResponses")
	if responses != nil && !wire.IsObject(responses) {
		return session.InvalidParams("inputResponses must be an object")
	}
	for key, q := range s.questions {
		answer := wire.Member(responses, key)
		switch {
		case answer == nil:
		case !wire.IsObject(answer):
			return session.InvalidParams("the inputResponse " + key + " must be an object")
		default:
			q.answer <- reply{result: answer}
			delete(s.questions, key)
		}
	}
	s.expiry.Stop()
	s.current, s.last = r, r
	s.tell()
	return nil
}

// tell lets the request be answered with the open questions, unless they are held. s.mu must be held.
func (s *suspension) tell() {
	if len(s.questions) > 0 && !s.held {
		signal.Leave(s.news)
	}
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
	if signal.IsClosed(s.finished) {
		s.mu.Unlock()
		return nil, errEnded
	}
	s.asked++
	key := fmt.Sprintf("input-%d", s.asked)
	s.questions[key] = q
	s.tell()
	s.mu.Unlock()
	defer session.Asked(ctx)()
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

// Hold says whether more questions may follow at once, so that the client is not asked yet.
func (c Call) Hold(held bool) {
	if s, ok := c.From.(*suspension); ok {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.held = held
		s.tell()
	}
}

// WasSuspended reports whether the client was asked to come back to the call.
func (c Call) WasSuspended() bool {
	s, ok := c.From.(*suspension)
	if !ok {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked > 0
}

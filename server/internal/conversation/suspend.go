package conversation

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/server/internal/budget"
)

// suspendTime is how long a suspended request waits for its client.
const suspendTime = 10 * time.Minute

// suspensions are the requests that wait for their clients to come back.
type suspensions struct {
	prefix string         // of each requestState
	budget *budget.Budget // of those in byState

	mu      sync.Mutex // guards the fields below
	byState map[string]*suspension
	ended   bool // no more are suspended
}

// The prefixes mark a requestState as ours: for clients, and for other nodes, which pass theirs on to clients.
const (
	statePrefix     = "mr1."
	nodeStatePrefix = "mrn1."
)

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
		s = &suspension{
			state: all.prefix + rand.Text(), principal: r.Principal, fingerprint: fingerprintOf(r), rules: r.clients.Rules(), current: r, last: r,
			finished: make(chan struct{}), questions: make(map[string]*question), news: make(chan struct{}, 1),
		}
		s.start(r)
	}
	defer askThrough(r, nil)
	for {
		select {
		case <-s.finished:
			all.remove(s)
			return s.result, s.err
		case <-s.news:
			if result, err := all.suspend(s); result != nil || err != nil {
				if err == nil {
					r.waiting = s
				}
				return result, err
			}
		case <-r.ctx.Done():
			all.giveUp(context.Cause(r.ctx), s)
			return nil, context.Cause(r.ctx)
		}
	}
}

// askThrough lets s ask the client in the answer to this request; with nil, the answer
// holds no questions any more.
func askThrough(r *Request, s *suspension) {
	r.Requests.mu.Lock()
	r.asker = s
	r.Requests.mu.Unlock()
	r.askable.Notify()
}

// suspend answers the client with the open questions of the server, nil if they are answered meanwhile, or held.
func (all *suspensions) suspend(s *suspension) (json.RawMessage, error) {
	if err := all.enter(s); err != nil {
		all.giveUp(err, s)
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.questions) == 0 || s.held {
		return nil, nil
	}
	requests := s.show()
	s.current = nil
	s.expiry = time.AfterFunc(suspendTime, func() { all.expire(s) })
	state := s.state
	if address := s.last.clients.Address; address != nil && s.last.Visitor {
		state = strings.TrimSuffix(state+"@"+address(), "@")
	}
	return fmt.Appendf(nil, `{"resultType":"input_required","inputRequests":%s,"requestState":%q}`, requests, state), nil
}

var errBusy = session.Internal("busy: too many requests, or too long ones, wait for their clients' input")

// enter takes in a suspended request, unless there are too many.
func (all *suspensions) enter(s *suspension) error {
	size := len(s.latest().Params)
	all.mu.Lock()
	defer all.mu.Unlock()
	all.takeOut(s)             // a request that goes on with it may be longer than the first
	s.size = max(s.size, size) // the first one's are kept, too
	switch {
	case all.ended:
		return ErrClosed
	case all.budget.Take(budget.Suspended, s.principal, s.size) != nil:
		return errBusy
	}
	all.byState[s.state] = s
	return nil
}

// resume returns the suspended request that this one goes on with, nil if it is a
// new one.
func (all *suspensions) resume(r *Request) (*suspension, error) {
	state := all.stateOf(r.Message)
	if state == "" {
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

// elsewhere returns the address of the gateway that has suspended the request which r goes on with; "" if it is this
// router, or the requestState does not say.
func (all *suspensions) elsewhere(r *Request) string {
	if r.passed || r.clients.Address == nil || all.find(r.Message) != nil {
		return ""
	}
	_, address, _ := strings.Cut(all.stateOf(r.Message), "@")
	if len(address) > maxID || address == r.clients.Address() { // it is no address, or has expired
		return ""
	}
	return address
}

// stateOf returns the requestState of a message, "" if it is not ours.
func (all *suspensions) stateOf(m Message) string {
	if state := wire.Text(m.Params, "requestState"); strings.HasPrefix(state, all.prefix) {
		return state
	}
	return ""
}

// find returns the suspended request of the requestState in a message, nil if there is none here.
func (all *suspensions) find(m Message) *suspension {
	state, _, _ := strings.Cut(all.stateOf(m), "@")
	all.mu.Lock()
	defer all.mu.Unlock()
	return all.byState[state]
}

// ErrHolderGone is the error of a request that goes on with a suspended one of a router that can't be reached.
var ErrHolderGone = session.InvalidParams("the router that holds the call of this requestState can't be reached; send the request again without the requestState if that does no harm")

// ErrNotResumed is the error of a request that goes on with no suspended one.
var ErrNotResumed = session.InvalidParams("the requestState is not valid for this request, or has expired, or the router that held it has ended; send the request again without it if that does no harm")

// giveUp cancels requests that are suspended or were about to be, and waits for
// their end.
func (all *suspensions) giveUp(cause error, given ...*suspension) {
	for _, s := range given {
		s.mu.Lock()
		s.givenUp = true
		s.cancel(cause)
		s.mu.Unlock()
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
	for _, s := range all.byState {
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
	waits := s.current == nil
	if waits { // a request that goes on with it at this instant comes before or after, not between
		s.givenUp = true
		s.cancel(errors.New("the client did not come back with its input"))
	}
	s.mu.Unlock()
	if waits {
		all.remove(s)
	}
}

func (all *suspensions) remove(s *suspension) {
	all.mu.Lock()
	defer all.mu.Unlock()
	all.takeOut(s)
}

// takeOut is remove. all.mu must be held.
func (all *suspensions) takeOut(s *suspension) {
	if all.byState[s.state] == s {
		delete(all.byState, s.state)
		all.budget.Release(budget.Suspended, s.principal, s.size)
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

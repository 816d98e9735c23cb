package server

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/session"
)

// A legacy server asks its client while it works on a request. A modern client
// can't be asked then: its request is answered with input_required, and it comes
// again with the answers. Meanwhile the server's request is parked.

const (
	// parkTime is how long a parked request waits for the client.
	parkTime = 10 * time.Minute

	// maxParked bounds the requests of one principal that are parked, and
	// maxAllParked those of all.
	maxParked    = 100
	maxAllParked = 1000

	// statePrefix marks a requestState as ours.
	statePrefix = "mr1."
)

// errEnded is how a question fails whose request was answered already.
var errEnded = errors.New("the request has ended")

// A parking is a request to a server that outlives those of the client which
// wait for it, one after the other. It is the server's client.
type parking struct {
	server    *Server
	id        uint64
	principal string            // who asked
	print     [sha256.Size]byte // of what was asked
	cancel    context.CancelCauseFunc
	finished  chan struct{} // closed when result and err are set
	result    json.RawMessage
	err       error

	mu        sync.Mutex // guards what follows
	current   *request   // which waits for it; nil while parked
	last      *request   // the one that waited last
	questions map[string]*question
	asked     int
	news      chan struct{} // holds a signal when there is a question nobody was shown
	expiry    *time.Timer
}

// A question is what a server wants to know of the client.
type question struct {
	server  string
	message session.Message
	shown   bool
	answer  chan reply
}

// interactive carries out a request of a modern client, or goes on with one that
// was parked.
func (r *request) interactive(handle handler) (json.RawMessage, error) {
	p, err := r.resume()
	if err != nil {
		return nil, err
	}
	if p == nil {
		p = r.server.park(r, handle)
	}
	defer r.carry(nil)
	select {
	case <-p.finished:
		r.server.unpark(p)
		return p.result, p.err
	case <-p.news:
		result, err := r.server.ask(p)
		if err == nil {
			r.left = p
		}
		return result, err
	case <-r.ctx.Done():
	}
	r.server.giveUp(context.Cause(r.ctx), p)
	return nil, context.Cause(r.ctx)
}

// giveUp cancels requests that are parked or were about to be, and waits for
// their end.
func (s *Server) giveUp(why error, parked ...*parking) {
	for _, p := range parked {
		p.cancel(why)
	}
	for _, p := range parked {
		<-p.finished
		s.unpark(p)
	}
}

// carry says that questions can be put to the client by answering this request.
func (r *request) carry(p *parking) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.parked = p
	r.announce()
}

// park carries out a request in a goroutine of its own, which is awaited by who
// takes its result or gives it up.
func (s *Server) park(r *request, handle handler) *parking {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(r.ctx))
	p := &parking{
		server: s, principal: r.principal, print: r.fingerprint(), cancel: cancel, current: r, last: r,
		finished: make(chan struct{}), questions: make(map[string]*question), news: make(chan struct{}, 1),
	}
	r.carry(p)
	go func() {
		defer cancel(nil)
		p.carryOut(ctx, handle, r)
		close(p.finished)
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, q := range p.questions {
			q.answer <- reply{err: errEnded}
		}
		clear(p.questions)
	}()
	return p
}

func (p *parking) carryOut(ctx context.Context, handle handler, r *request) {
	defer r.survive(&p.err)
	p.result, p.err = handle(ctx, &call{request: r, from: p})
}

// ask answers the client with what the server wants to know.
func (s *Server) ask(p *parking) (json.RawMessage, error) {
	s.mu.Lock()
	if _, known := s.parked[p.id]; !known {
		if s.parkedFor(p.principal) >= maxParked || len(s.parked) >= maxAllParked {
			s.mu.Unlock()
			err := &session.Error{Code: session.CodeInternal, Message: "busy: too many requests wait for their clients' input"}
			s.giveUp(err, p)
			return nil, err
		}
		s.lastParked++
		p.id = s.lastParked
		s.parked[p.id] = p
	}
	s.mu.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	requests := []byte{'{'}
	for _, key := range slices.Sorted(maps.Keys(p.questions)) {
		q := p.questions[key]
		q.shown = true
		if len(requests) > 1 {
			requests = append(requests, ',')
		}
		requests = append(wire.AppendString(requests, key), ':')
		requests = fmt.Appendf(requests, `{"method":%q`, q.message.Method)
		if params := attributed(q.server, q.message); params != nil {
			requests = append(append(requests, `,"params":`...), params...)
		}
		requests = append(requests, '}')
	}
	p.current = nil
	p.expiry = time.AfterFunc(parkTime, func() { s.expire(p) })
	state := s.seal(p, time.Now().Add(parkTime))
	return fmt.Appendf(nil, `{"resultType":"input_required","inputRequests":%s},"requestState":%q}`, requests, state), nil
}

// parkedFor counts the requests of a principal that are parked. s.mu must be
// held.
func (s *Server) parkedFor(principal string) (n int) {
	for _, p := range s.parked {
		if p.principal == principal {
			n++
		}
	}
	return n
}

// expire gives up a request that is still parked.
func (s *Server) expire(p *parking) {
	p.mu.Lock()
	waited := p.current != nil
	p.mu.Unlock()
	if !waited {
		p.cancel(errors.New("the client did not come back with its input"))
		s.unpark(p)
	}
}

// abandonParked gives up the parked requests of which the last client that waited
// was one of those.
func (s *Server) abandonParked(those func(*conversation) bool) {
	var parked []*parking
	s.mu.Lock()
	for _, p := range s.parked {
		if those(p.latest().conversation) {
			parked = append(parked, p)
		}
	}
	s.mu.Unlock()
	s.giveUp(errClosed, parked...)
}

func (s *Server) unpark(p *parking) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.id != 0 {
		delete(s.parked, p.id)
	}
}

// resume returns the parked request that this one goes on with, nil if it is a
// new one.
func (r *request) resume() (*parking, error) {
	state, _ := wire.String(wire.Member(r.params, "requestState"))
	if !strings.HasPrefix(state, statePrefix) {
		return nil, nil
	}
	s := r.server
	id, print, ok := s.unseal(state)
	s.mu.Lock()
	p := s.parked[id]
	s.mu.Unlock()
	if !ok || p == nil || print != r.fingerprint() {
		return nil, invalidParams("the requestState is not valid for this request, or has expired; send the request again without it")
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.current != nil {
		return nil, invalidParams("the requestState was used already")
	}
	responses := wire.Member(r.params, "inputResponses")
	if responses != nil && !wire.IsObject(responses) {
		return nil, invalidParams("inputResponses must be an object")
	}
	for key, q := range p.questions {
		answer := wire.Member(responses, key)
		switch {
		case answer == nil:
		case !wire.IsObject(answer):
			return nil, invalidParams("the inputResponse " + key + " must be an object")
		default:
			q.answer <- reply{result: answer}
			delete(p.questions, key)
		}
	}
	p.expiry.Stop()
	p.current, p.last = r, r
	if len(p.questions) > 0 {
		signal(p.news)
	}
	r.carry(p)
	return p, nil
}

// fingerprint is what ties a parked request to those that go on with it.
func (r *request) fingerprint() [sha256.Size]byte {
	asked := r.bare()
	for _, own := range []string{"inputResponses", "requestState"} {
		asked = wire.DeleteMember(asked, own)
	}
	return sha256.Sum256(fmt.Appendf(nil, "%s\x00%s\x00%s", r.principal, r.method, asked))
}

// seal makes a requestState: nobody but us can read or make one.
func (s *Server) seal(p *parking, until time.Time) string {
	plain := binary.BigEndian.AppendUint64(nil, p.id)
	plain = binary.BigEndian.AppendUint64(plain, uint64(until.Unix()))
	plain = append(plain, p.print[:]...)
	nonce := make([]byte, s.sealer.NonceSize())
	rand.Read(nonce)
	return statePrefix + base64.RawURLEncoding.EncodeToString(s.sealer.Seal(nonce, nonce, plain, nil))
}

func (s *Server) unseal(state string) (id uint64, print [sha256.Size]byte, ok bool) {
	sealed, err := base64.RawURLEncoding.DecodeString(strings.TrimPrefix(state, statePrefix))
	if err != nil || len(sealed) < s.sealer.NonceSize() {
		return 0, print, false
	}
	plain, err := s.sealer.Open(nil, sealed[:s.sealer.NonceSize()], sealed[s.sealer.NonceSize():], nil)
	if err != nil || len(plain) != 16+len(print) {
		return 0, print, false
	}
	copy(print[:], plain[16:])
	until := time.Unix(int64(binary.BigEndian.Uint64(plain[8:])), 0)
	return binary.BigEndian.Uint64(plain), print, time.Now().Before(until)
}

func newSealer(key []byte) cipher.AEAD {
	block, err := aes.NewCipher(key)
	if err != nil {
		panic(err) // the key has the right length
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		panic(err)
	}
	return aead
}

// What follows makes a parking a session.Client.

// Home implements [session.Client].
func (p *parking) Home() session.Client { return p.latest().Home() }

// Modern implements [session.Client].
func (p *parking) Modern() bool { return true }

// Capabilities implements [session.Client].
func (p *parking) Capabilities() json.RawMessage { return p.latest().Capabilities() }

// Notify implements [session.Client]. While nobody waits, nobody hears it.
func (p *parking) Notify(server string, m session.Message) {
	p.mu.Lock()
	r := p.current
	p.mu.Unlock()
	if r == nil {
		return
	}
	if m.Method == "notifications/progress" {
		token := wire.Member(r.meta, "progressToken") // this may not be the request that began it
		if token == nil {
			return
		}
		m.Params = wire.SetMember(m.Params, "progressToken", token)
	}
	r.Notify(server, m)
}

// Ask implements [session.Client].
func (p *parking) Ask(ctx context.Context, server string, m session.Message) (json.RawMessage, error) {
	if !session.Answers(p.Capabilities(), m.Method) {
		return nil, cannotAnswer(m.Method)
	}
	q := &question{server: server, message: m, answer: make(chan reply, 1)}
	p.mu.Lock()
	select {
	case <-p.finished:
		p.mu.Unlock()
		return nil, errEnded
	default:
	}
	p.asked++
	key := fmt.Sprintf("input-%d", p.asked)
	p.questions[key] = q
	signal(p.news)
	p.mu.Unlock()
	select {
	case a := <-q.answer:
		return a.result, a.err
	case <-ctx.Done():
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.questions, key)
		return nil, context.Cause(ctx)
	}
}

func (p *parking) latest() *request {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.last
}

// signal leaves a signal in c unless one is there.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

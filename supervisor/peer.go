package supervisor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/session"
)

// A peer is the session with a server at the other end of a link: requests and
// their answers, and what the server says and asks by itself.
type peer struct {
	link   link
	host   host
	nextID atomic.Int64
	strays atomic.Int64           // messages skipped so far
	stray  atomic.Pointer[string] // the first of them that can be shown
	spoke  atomic.Bool            // whether any message has come
	info   session.Info           // set by the handshake, before the peer is shared
	meta   json.RawMessage        // what modern requests must carry in _meta; nil if legacy

	bothEras bool // the server speaks the legacy era as well

	listeners     atomic.Pointer[[]*listener]
	subscriptions subscriptions
	owned         sync.WaitGroup // goroutines that end with the session

	// mu guards what follows, and the replacing of listeners.
	mu      sync.Mutex
	pending map[int64]*request
	asked   map[string]*question // the server's requests that are not answered yet, by id
	told    bool                 // a client's roots
	idle    chan struct{}        // closed while nothing is pending
	since   time.Time            // when that began
	refused bool                 // no new calls: those under way may end, then the session does
	cause   error
	closed  chan struct{} // closed when cause is set

	answering int           // goroutines that answer the server, some of them what it has withdrawn
	calm      chan struct{} // closed when answering becomes 0, then replaced
}

// A link carries messages to a server. What comes back it hands to [peer.take].
type link interface {
	// send takes a message on its way, and returns once its turn has come. It
	// fails only if the message was not sent.
	send(ctx context.Context, o *outgoing) error

	// aside takes a message that nobody waits for. It does not block.
	aside(o *outgoing) error
}

// An outgoing message.
type outgoing struct {
	id     int64           // of a request, else 0
	method string          // "" for an answer
	params json.RawMessage // as in line
	meta   json.RawMessage // what the client said in _meta; nil if nothing
	line   []byte          // the whole message and a line end
	unsent atomic.Bool     // set before the session ends if nothing of it was sent
}

// A host is what a peer needs to know of whom it belongs to.
type host struct {
	server string
	stray  func(line []byte, why error)
	asked  func(method string) // called when the server asks its client for something

	// owner returns the only client that uses the session, nil if several may.
	// It may wait for that client until ctx ends.
	owner func(ctx context.Context) session.Client
}

type listener struct{ f func(session.Message) }

// newPeer returns a peer without a link, which must be set before it is used.
func newPeer(h host) *peer {
	idle := make(chan struct{})
	close(idle)
	return &peer{
		host:          h,
		pending:       make(map[int64]*request),
		asked:         make(map[string]*question),
		calm:          make(chan struct{}),
		subscriptions: subscriptions{turn: make(chan struct{}, 1), count: make(map[string]int), news: make(chan struct{})},
		idle:          idle,
		since:         time.Now(),
		closed:        make(chan struct{}),
	}
}

func (p *peer) firstStray() string {
	if line := p.stray.Load(); line != nil {
		return *line
	}
	return ""
}

// showable returns how a line begins that is no message, unless it looks like one: it
// may hold a result.
func showable(line []byte) (string, bool) {
	if len(line) == 0 || line[0] == '{' || line[0] == '[' {
		return "", false
	}
	return strings.ToValidUTF8(string(line[:min(len(line), 200)]), ""), true
}

func (p *peer) skip(line []byte, why error) {
	p.strays.Add(1)
	if text, ok := showable(line); ok && p.stray.Load() == nil {
		p.stray.CompareAndSwap(nil, &text)
	}
	p.host.stray(line, why)
}

// take acts on one message. origin is the request that it came with, 0 if that
// is not known. It does not block.
func (p *peer) take(m wire.Message, origin int64) error {
	p.spoke.Store(true)
	switch {
	case m.IsResponse():
		return p.deliver(m)
	case m.Method == "ping" && m.IsRequest():
		return p.link.aside(&outgoing{line: wire.AppendResult(nil, m.ID, []byte("{}"))})
	case m.IsRequest():
		return p.answer(m, origin)
	}
	switch m.Method {
	case "notifications/progress":
		return p.progress(m)
	case "notifications/cancelled":
		p.withdraw(wire.Member(m.Params, "requestId"))
		return nil
	case "notifications/subscriptions/acknowledged":
		p.subscriptions.agree(m.Params)
		return nil
	case "notifications/message":
		if from := p.client(origin); from != nil {
			from.Notify(p.host.server, session.Message{Method: m.Method, Params: m.Params})
			return nil
		}
	}
	p.tell(session.Message{Method: m.Method, Params: m.Params})
	return nil
}

// tell has the listeners hear a notification.
func (p *peer) tell(m session.Message) {
	if all := p.listeners.Load(); all != nil {
		for _, l := range *all {
			l.f(m)
		}
	}
}

// progress hands on a notification about a request that is pending, under the
// token that the client gave it.
func (p *peer) progress(m wire.Message) error {
	id, err := ourID(wire.Member(m.Params, "progressToken"))
	if err != nil {
		return err
	}
	p.mu.Lock()
	r := p.pending[id]
	p.mu.Unlock()
	if r != nil && r.token != nil {
		r.from.Notify(p.host.server, session.Message{Method: m.Method, Params: wire.SetMember(m.Params, "progressToken", r.token)})
	}
	return nil
}

func (p *peer) deliver(m wire.Message) error {
	id, err := ourID(m.ID)
	if err != nil {
		return err
	}
	if id > p.nextID.Load() {
		return errors.New("response to a request that was never made")
	}
	p.settle(id, reply{message: m})
	return nil
}

// ourID reads one of our ids, which some servers send back as strings.
func ourID(id json.RawMessage) (int64, error) {
	n, err := strconv.ParseInt(strings.Trim(string(id), `"`), 10, 64)
	if err != nil {
		return 0, errors.New("no id of ours")
	}
	return n, nil
}

// settle ends a pending request. What comes after the first reply is dropped.
func (p *peer) settle(id int64, r reply) {
	p.mu.Lock()
	pending := p.pending[id]
	p.mu.Unlock()
	if pending != nil {
		select {
		case pending.answer <- r:
		default:
		}
	}
}

// close ends the session: calls under way and to come fail with cause. Only the
// first cause counts.
func (p *peer) close(cause error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cause != nil {
		return
	}
	p.cause = cause
	close(p.closed)
	for _, q := range p.asked {
		q.cancel()
	}
}

// Call implements [session.Session].
func (p *peer) Call(ctx context.Context, r session.Request) (json.RawMessage, error) {
	raw, err := p.exchange(ctx, r)
	for round := 0; err == nil && p.awaitsInput(r, raw); round++ {
		if round == maxRounds {
			return nil, &session.Error{Code: session.CodeInternal, Message: fmt.Sprintf("server %q asked for input %d times", p.host.server, maxRounds)}
		}
		if r.Params, err = p.fulfil(ctx, r, raw); err == nil {
			raw, err = p.exchange(ctx, r)
		}
	}
	return raw, err
}

// exchange sends a request and waits for its result.
func (p *peer) exchange(ctx context.Context, asked session.Request) (json.RawMessage, error) {
	r, err := p.begin(ctx, asked)
	if err != nil {
		return nil, err
	}
	defer p.end(r)
	select {
	case reply := <-r.answer:
		return reply.result()
	case <-ctx.Done():
		p.cancel(r)
		return nil, context.Cause(ctx)
	case <-p.closed:
		select {
		case reply := <-r.answer: // it came just in time
			return reply.result()
		default:
		}
		if r.sent.unsent.Load() {
			return nil, fmt.Errorf("%w: %w", session.ErrNotSent, p.cause)
		}
		return nil, fmt.Errorf("%w: %w", session.ErrClosed, p.cause)
	}
}

// A request is one that is on its way and has not ended.
type request struct {
	id       int64
	from     session.Client
	token    json.RawMessage // the client's progress token; nil if it gave none
	answer   chan reply      // receives at most one
	sent     *outgoing
	standing bool // a subscription, whose answer nobody waits for
}

// A reply is what became of a request: the server's response, or why there will
// be none.
type reply struct {
	message wire.Message
	err     error
}

// begin sends a request. Unless it fails, end must be called.
func (p *peer) begin(ctx context.Context, asked session.Request) (*request, error) {
	r := &request{id: p.nextID.Add(1), from: asked.From, answer: make(chan reply, 1), standing: asked.Method == listen}
	params := asked.Params
	if asked.Meta != nil || p.meta != nil {
		params, r.token = p.stamp(asked, r.id)
	}
	if err := p.register(r); err != nil {
		return nil, fmt.Errorf("%w: %w", session.ErrNotSent, err)
	}
	line := wire.AppendRequest(make([]byte, 0, len(params)+len(asked.Method)+64), r.id, asked.Method, params)
	r.sent = &outgoing{id: r.id, method: asked.Method, params: params, meta: asked.Meta, line: line}
	if err := p.link.send(ctx, r.sent); err != nil {
		p.end(r)
		return nil, p.notSent(err)
	}
	return r, nil
}

func (p *peer) notSent(err error) error {
	if errors.Is(err, session.ErrClosed) {
		err = p.cause
	}
	return fmt.Errorf("%w: %w", session.ErrNotSent, err)
}

func (p *peer) register(r *request) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.cause != nil:
		return p.cause
	case p.refused && !r.standing:
		return errors.New("the session is about to end")
	}
	if !r.standing && p.busy() == 0 {
		p.idle = make(chan struct{})
	}
	p.pending[r.id] = r
	return nil
}

// busy counts the requests that somebody waits for. p.mu must be held.
func (p *peer) busy() int {
	n := len(p.pending)
	for _, r := range p.pending {
		if r.standing {
			n--
		}
	}
	return n
}

func (p *peer) end(r *request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.pending, r.id)
	if p.busy() == 0 {
		select {
		case <-p.idle:
		default:
			close(p.idle)
			p.since = time.Now()
		}
	}
}

// unused returns for how long nobody has waited for anything.
func (p *peer) unused() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.busy() > 0 {
		return 0
	}
	return time.Since(p.since)
}

// cancel tells the server that nobody waits for the answer any more.
func (p *peer) cancel(r *request) {
	p.say(cancelled, fmt.Appendf(nil, `{"requestId":%d,"reason":"cancelled by the client"}`, r.id))
}

// Notify implements [session.Session].
func (p *peer) Notify(ctx context.Context, method string, params json.RawMessage) error {
	err := p.link.send(ctx, &outgoing{method: method, params: params, line: wire.AppendNotification(nil, method, params)})
	if err != nil {
		return p.notSent(err)
	}
	return nil
}

const cancelled = "notifications/cancelled"

// say sends a notification that nobody waits for.
func (p *peer) say(method string, params json.RawMessage) {
	p.link.aside(&outgoing{method: method, params: params, line: wire.AppendNotification(nil, method, params)})
}

// setLevel has a legacy server that logs send messages from the level on.
func (p *peer) setLevel(ctx context.Context, level string) {
	if level == "" || p.meta != nil || !p.info.Has("logging") {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, levelTimeout)
	defer cancel()
	params := append(wire.AppendString([]byte(`{"level":`), level), '}')
	p.exchange(ctx, session.Request{Method: "logging/setLevel", Params: params})
}

// levelTimeout bounds the wait for a server to take in a level.
const levelTimeout = 2 * time.Second

// Listen implements [session.Session].
func (p *peer) Listen(f func(session.Message)) (stop func()) {
	l := &listener{f}
	p.listen(func(all []*listener) []*listener { return append(all, l) })
	return func() {
		p.listen(func(all []*listener) []*listener {
			for i := range all {
				if all[i] == l {
					return append(all[:i], all[i+1:]...)
				}
			}
			return all
		})
	}
}

func (p *peer) listen(edit func([]*listener) []*listener) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []*listener
	if old := p.listeners.Load(); old != nil {
		all = append(all, *old...)
	}
	all = edit(all)
	p.listeners.Store(&all)
}

// Done implements [session.Session].
func (p *peer) Done() <-chan struct{} { return p.closed }

// Info implements [session.Session].
func (p *peer) Info() session.Info { return p.info }

// quiet returns a channel that is closed when no call is under way, or was when
// quiet was called.
func (p *peer) quiet() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.idle
}

// refuse lets no new call begin.
func (p *peer) refuse() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refused = true
}

// refuseUnlessBusy does so unless a call is under way, and reports whether it does.
func (p *peer) refuseUnlessBusy() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refused = p.refused || p.busy() == 0
	return p.refused
}

// toldRoots reports whether the server was told a client's roots.
func (p *peer) toldRoots() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.told
}

// usable reports whether a call can begin.
func (p *peer) usable() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.refused && p.cause == nil
}

// result returns what a reply holds.
func (r reply) result() (json.RawMessage, error) {
	switch {
	case r.err != nil:
		return nil, r.err
	case r.message.Error == nil:
		return r.message.Result, nil
	}
	e := new(session.Error)
	if err := json.Unmarshal(r.message.Error, e); err != nil {
		return nil, &session.Error{Code: session.CodeInternal, Message: "the server answered with an error that is no JSON-RPC error object", Data: r.message.Error}
	}
	return nil, e
}

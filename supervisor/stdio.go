package supervisor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/session"
)

const (
	writeChunk = 256 << 10
	asideQueue = 64
)

// A peer is the session with a server at the other end of a pair of byte
// streams, one JSON-RPC message a line. The SDK's transport is not used for
// this: it ends at the first line that is no message, and decodes results.
//
// One goroutine reads, another writes: what it has begun to write it finishes,
// whatever becomes of whoever asked for it, so that no message is torn.
type peer struct {
	w      io.Writer
	stall  time.Duration  // how long the server may leave what is written unread
	lines  chan *outgoing // to write; whoever hands one over waits until its turn has come
	aside  chan []byte    // answers and cancellations, which nobody waits for
	nextID atomic.Int64
	strays atomic.Int64 // lines skipped so far
	spoke  atomic.Bool  // whether any message has come
	stray  func(line []byte, why error)
	info   session.Info    // set by the handshake, before the peer is shared
	meta   json.RawMessage // what modern requests must carry in _meta; nil if legacy

	broken chan struct{} // closed when nothing can be written any more
	torn   error         // why; valid after broken

	listeners atomic.Pointer[[]*listener]

	// mu guards what follows, and the replacing of listeners.
	mu      sync.Mutex
	pending map[int64]chan wire.Message
	idle    chan struct{} // closed while nothing is pending
	refused bool          // no new calls: those under way may end, then the session does
	cause   error
	closed  chan struct{} // closed when cause is set
}

// An outgoing line; unsent is set before the peer closes if not one byte of it
// was written.
type outgoing struct {
	line   []byte
	unsent atomic.Bool
}

type listener struct{ f func(session.Message) }

// newPeer returns a peer that writes to w. It lives while read and write run.
func newPeer(w io.Writer, stall time.Duration, stray func(line []byte, why error)) *peer {
	idle := make(chan struct{})
	close(idle)
	return &peer{
		w:       w,
		stall:   stall,
		lines:   make(chan *outgoing),
		aside:   make(chan []byte, asideQueue),
		stray:   stray,
		pending: make(map[int64]chan wire.Message),
		idle:    idle,
		broken:  make(chan struct{}),
		closed:  make(chan struct{}),
	}
}

// read takes in what the server says until r ends.
func (p *peer) read(r io.Reader) {
	lines := wire.NewReader(r, wire.MaxLine)
	for {
		line, err := lines.Next()
		if errors.Is(err, wire.ErrTooLong) {
			p.skip(nil, err)
			continue
		}
		if err != nil {
			return
		}
		if m, err := wire.Parse(line); err != nil {
			p.skip(line, err)
		} else if err := p.take(m); err != nil {
			p.skip(line, err)
		}
	}
}

// write writes what there is to write until the peer is closed. If that fails,
// because the server is gone or has not read for too long, it breaks the peer,
// which whoever runs it must then close.
func (p *peer) write() {
	for {
		o := new(outgoing)
		select {
		case o = <-p.lines:
		case o.line = <-p.aside:
		case <-p.closed:
			return
		}
		if n, err := p.writeLine(o.line); err != nil {
			o.unsent.Store(n == 0)
			p.torn = fmt.Errorf("write to the server's stdin: %w", err)
			close(p.broken)
			return
		}
	}
}

func (p *peer) writeLine(line []byte) (n int, err error) {
	deadline, _ := p.w.(interface{ SetWriteDeadline(time.Time) error })
	for n < len(line) && err == nil {
		if deadline != nil {
			deadline.SetWriteDeadline(time.Now().Add(p.stall))
		}
		var m int
		m, err = p.w.Write(line[n:min(len(line), n+writeChunk)])
		n += m
	}
	return n, err
}

// send hands a line to the writer, and returns once its turn has come.
func (p *peer) send(ctx context.Context, line []byte) (*outgoing, error) {
	o := &outgoing{line: line}
	select {
	case p.lines <- o:
		return o, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: %w", session.ErrNotSent, context.Cause(ctx))
	case <-p.closed:
		return nil, fmt.Errorf("%w: %w", session.ErrNotSent, p.cause)
	}
}

func (p *peer) skip(line []byte, why error) {
	p.strays.Add(1)
	p.stray(line, why)
}

// take acts on one message. It does not block.
func (p *peer) take(m wire.Message) error {
	p.spoke.Store(true)
	switch {
	case m.IsResponse():
		return p.deliver(m)
	case m.Method == "ping" && m.IsRequest():
		return p.sendAside(wire.AppendResult(nil, m.ID, []byte("{}")))
	case m.IsRequest():
		return p.sendAside(wire.AppendError(nil, m.ID, wire.Marshal(session.Error{
			Code: session.CodeMethodNotFound, Message: "this client does not offer " + m.Method,
		})))
	}
	if all := p.listeners.Load(); all != nil {
		for _, l := range *all {
			l.f(session.Message{ID: m.ID, Method: m.Method, Params: m.Params})
		}
	}
	return nil
}

func (p *peer) deliver(m wire.Message) error {
	id, err := strconv.ParseInt(strings.Trim(string(m.ID), `"`), 10, 64)
	if err != nil {
		return errors.New("response without a usable id")
	}
	p.mu.Lock()
	answer, ok := p.pending[id]
	p.mu.Unlock()
	if ok {
		select {
		case answer <- m:
		default: // answered twice
		}
	} else if id > p.nextID.Load() {
		return errors.New("response to a request that was never made")
	}
	return nil
}

// sendAside has a line written in its time. It does not wait.
func (p *peer) sendAside(line []byte) error {
	select {
	case p.aside <- line:
		return nil
	default:
		return errors.New("the server does not read, or asks too much at once")
	}
}

// close ends the session: calls under way and to come fail with cause. Only the
// first cause counts.
func (p *peer) close(cause error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cause == nil {
		p.cause = cause
		close(p.closed)
	}
}

// Call implements [session.Session].
func (p *peer) Call(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
	r, err := p.begin(ctx, method, p.stamp(params))
	if err != nil {
		return nil, err
	}
	defer p.end(r)
	select {
	case m := <-r.answer:
		return result(m)
	case <-ctx.Done():
		p.cancel(r)
		return nil, context.Cause(ctx)
	case <-p.closed:
		select {
		case m := <-r.answer: // it came just in time
			return result(m)
		default:
		}
		if r.sent.unsent.Load() {
			return nil, fmt.Errorf("%w: %w", session.ErrNotSent, p.cause)
		}
		return nil, fmt.Errorf("%w: %w", session.ErrClosed, p.cause)
	}
}

// A request is one that was handed to the writer and has not ended.
type request struct {
	id     int64
	answer chan wire.Message // receives at most one
	sent   *outgoing
}

// begin sends a request. Unless it fails, end must be called.
func (p *peer) begin(ctx context.Context, method string, params json.RawMessage) (r request, err error) {
	r = request{id: p.nextID.Add(1), answer: make(chan wire.Message, 1)}
	if err := p.register(r); err != nil {
		return r, fmt.Errorf("%w: %w", session.ErrNotSent, err)
	}
	line := make([]byte, 0, len(params)+len(method)+64)
	if r.sent, err = p.send(ctx, wire.AppendRequest(line, r.id, method, params)); err != nil {
		p.end(r)
	}
	return r, err
}

func (p *peer) register(r request) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.cause != nil:
		return p.cause
	case p.refused:
		return errors.New("the session is about to end")
	}
	if len(p.pending) == 0 {
		p.idle = make(chan struct{})
	}
	p.pending[r.id] = r.answer
	return nil
}

func (p *peer) end(r request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.pending, r.id)
	if len(p.pending) == 0 {
		select {
		case <-p.idle:
		default:
			close(p.idle)
		}
	}
}

// cancel tells the server that nobody waits for the answer any more.
func (p *peer) cancel(r request) {
	params := fmt.Appendf(nil, `{"requestId":%d,"reason":"cancelled by the client"}`, r.id)
	p.sendAside(wire.AppendNotification(nil, "notifications/cancelled", params))
}

// Notify implements [session.Session].
func (p *peer) Notify(ctx context.Context, method string, params json.RawMessage) error {
	_, err := p.send(ctx, wire.AppendNotification(nil, method, params))
	return err
}

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

// usable reports whether a call can begin.
func (p *peer) usable() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.refused && p.cause == nil
}

// stamp adds to a modern request's _meta what every one must carry, unless the
// caller has set it.
func (p *peer) stamp(params json.RawMessage) json.RawMessage {
	if p.meta == nil {
		return params
	}
	if len(params) == 0 {
		params = json.RawMessage("{}")
	}
	meta := wire.Member(params, "_meta")
	if !wire.IsObject(meta) {
		return wire.SetMember(params, "_meta", p.meta)
	}
	stamped := meta
	wire.Members(p.meta, func(key string, value []byte) bool {
		if wire.Member(meta, key) == nil {
			stamped = wire.SetMember(stamped, key, value)
		}
		return true
	})
	return wire.SetMember(params, "_meta", stamped)
}

// result returns what a response holds.
func result(m wire.Message) (json.RawMessage, error) {
	if m.Error == nil {
		return m.Result, nil
	}
	e := new(session.Error)
	if err := json.Unmarshal(m.Error, e); err != nil {
		return nil, &session.Error{Code: session.CodeInternal, Message: "the server answered with an error that is no JSON-RPC error object", Data: m.Error}
	}
	return nil, e
}

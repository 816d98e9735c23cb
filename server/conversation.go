package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/session"
)

const (
	// maxInFlight bounds the requests of one client that are not answered yet.
	maxInFlight = 1000

	// maxSubscriptions bounds the resources that one client hears of.
	maxSubscriptions = 1000
)

var (
	errIDInUse = &session.Error{Code: session.CodeInvalidRequest, Message: "the id of the request is in use"}
	errClosed  = &session.Error{Code: session.CodeInternal, Message: "the router is going away"}
	errBusy    = &session.Error{Code: session.CodeInternal, Message: fmt.Sprintf("busy: %d requests are in flight", maxInFlight)}
)

// An outlet takes messages to a client: the stdout of a pipe, or the stream of
// one HTTP request. Each message ends in a line end.
type outlet interface {
	send(message []byte) error
}

// A conversation is what a client and the router have with each other: a session
// of the legacy era, a pipe on which both eras may be spoken, or a single request
// of a client that has no session. It knows the requests that are not answered
// yet, in both directions.
//
// It is the [session.Client] for what concerns no one request.
type conversation struct {
	server  *Server
	out     outlet // for what belongs to no request
	visitor bool   // it ends with its one request
	plain   bool   // that is of JSON-RPC, without MCP's sessions and streams

	// principal is who the client has proved to be, "" if nobody asked.
	principal string

	mu           sync.Mutex // guards what follows
	opened       bool       // initialize was seen
	ready        bool       // the legacy client has its answer, and can be told and asked things
	begun        bool       // any request was seen
	version      string     // the legacy revision agreed on
	capabilities json.RawMessage
	client       string // the name that a legacy client gives itself
	level        string // the least severe log messages wanted; "" if the client did not say
	open         map[string]*request
	answered     chan struct{} // closed when nothing is open any more; nil if nobody waits
	closed       bool          // nothing enters any more
	nextAsk      int64
	asks         map[int64]chan reply          // what the client was asked
	watches      map[string]context.CancelFunc // of resources, by URI
	changed      chan struct{}                 // closed when opened or open changes

	running sync.WaitGroup // the goroutines of its requests and watches
}

// A reply is a client's answer to what it was asked.
type reply struct {
	result json.RawMessage
	err    error
}

// converse begins a conversation. It must be closed.
func (s *Server) converse(out outlet) *conversation {
	c := &conversation{
		server:  s,
		out:     out,
		open:    make(map[string]*request),
		asks:    make(map[int64]chan reply),
		watches: make(map[string]context.CancelFunc),
		changed: make(chan struct{}),
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conversations[c] = true
	return c
}

// visit begins the conversation of a single request: of the modern era, or plain
// JSON-RPC, which needs no initialize.
func (s *Server) visit(plain bool) *conversation {
	return &conversation{
		server: s, visitor: true, plain: plain, opened: plain,
		open:    make(map[string]*request),
		changed: make(chan struct{}),
	}
}

// resumed has the conversation go on where so many routers before it were killed.
// What the client is asked gets ids that none of them has used.
func (c *conversation) resumed(routers uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.nextAsk = int64(routers&0xffff) << 32
}

// close cancels what is open, waits until nothing of it runs, and gives up what
// servers hold for the client.
func (c *conversation) close() {
	c.mu.Lock()
	c.closed = true
	for id := range c.open {
		c.drop(id, errClosed)
	}
	for _, stop := range c.watches {
		stop()
	}
	for _, answer := range c.asks {
		answer <- reply{err: &session.Error{Code: session.CodeInternal, Message: "the client has left"}}
	}
	clear(c.asks)
	c.mu.Unlock()
	s := c.server
	if c.visitor {
		c.running.Wait()
		return
	}
	c.running.Wait()
	s.abandonParked(func(of *conversation) bool { return of == c })
	s.mu.Lock()
	delete(s.conversations, c)
	s.mu.Unlock()
	s.memory.forget(c)
	s.results.forget(c)
	s.router.Release(c)
}

// enter notes an open request. It fails with errIDInUse, errBusy or errClosed.
func (c *conversation) enter(r *request) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed:
		return errClosed
	case c.open[string(r.id)] != nil:
		return errIDInUse
	case len(c.open) >= maxInFlight:
		return errBusy
	}
	c.open[string(r.id)] = r
	c.begun = true
	c.ready = c.ready || !r.modern && r.method != "initialize" && r.method != "ping"
	c.running.Add(1)
	c.announce()
	return nil
}

// leave forgets the request, and reports whether it was still open.
func (c *conversation) leave(r *request) bool {
	defer c.running.Done()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open[string(r.id)] != r {
		return false
	}
	c.remove(string(r.id))
	return true
}

// cancel ends an open request that is not to be answered.
func (c *conversation) cancel(id json.RawMessage) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r := c.open[string(id)]; r != nil && r.method != "initialize" {
		c.drop(string(id), errCancelled)
	}
}

var errCancelled = errors.New("cancelled by the client")

// abandon cancels all requests that are still open, and returns their ids.
func (c *conversation) abandon() (ids []json.RawMessage) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, r := range c.open {
		ids = append(ids, r.id)
		c.drop(id, errClosed)
	}
	return ids
}

// drop cancels a request and forgets it. c.mu must be held.
func (c *conversation) drop(id string, cause error) {
	c.open[id].end(cause)
	c.remove(id)
}

// remove closes the request. c.mu must be held.
func (c *conversation) remove(id string) {
	delete(c.open, id)
	if len(c.open) == 0 && c.answered != nil {
		close(c.answered)
		c.answered = nil
	}
}

// announce wakes who waits for a change. c.mu must be held.
func (c *conversation) announce() {
	close(c.changed)
	c.changed = make(chan struct{})
}

// drain waits until nothing is open, which it reports, or d has passed or ctx ends.
// Nothing may enter meanwhile, and only one may wait.
func (c *conversation) drain(ctx context.Context, d time.Duration) (drained bool) {
	c.mu.Lock()
	if len(c.open) == 0 {
		c.mu.Unlock()
		return true
	}
	answered := make(chan struct{})
	c.answered = answered
	c.mu.Unlock()
	select {
	case <-answered:
		return true
	case <-time.After(d):
	case <-ctx.Done():
	}
	return false
}

// notified acts on a notification of the client.
func (c *conversation) notified(m wire.Message) {
	switch m.Method {
	case "notifications/initialized":
		c.mu.Lock()
		defer c.mu.Unlock()
		c.ready = c.opened
		c.announce()
	case "notifications/cancelled":
		c.cancel(wire.Member(m.Params, "requestId"))
	case "notifications/roots/list_changed":
		c.server.router.Tell(c, m.Method, m.Params)
	}
}

// responded takes the client's answer to what it was asked.
func (c *conversation) responded(m wire.Message) {
	id, err := strconv.ParseInt(string(m.ID), 10, 64)
	if err != nil {
		return
	}
	r := reply{result: m.Result}
	if m.Error != nil {
		e := new(session.Error)
		if json.Unmarshal(m.Error, e) != nil {
			e = &session.Error{Code: session.CodeInternal, Message: "the client answered with an error that is no JSON-RPC error object"}
		}
		r.err = e
	} else if !wire.IsObject(m.Result) {
		r.err = &session.Error{Code: session.CodeInternal, Message: "the client answered with a result that is no object"}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if answer := c.asks[id]; answer != nil {
		delete(c.asks, id)
		answer <- r
	}
}

// put asks the client something on the outlet, in the legacy way, and waits for
// the answer.
func (c *conversation) put(ctx context.Context, out outlet, server string, m session.Message) (json.RawMessage, error) {
	if !session.Answers(c.Capabilities(), m.Method) {
		return nil, cannotAnswer(m.Method)
	}
	answer := make(chan reply, 1)
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil, errClosed
	}
	c.nextAsk++
	id := c.nextAsk
	c.asks[id] = answer
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.asks, id)
	}()
	if err := out.send(wire.AppendRequest(nil, id, m.Method, attributed(server, m))); err != nil {
		return nil, err
	}
	select {
	case r := <-answer:
		return r.result, r.err
	case <-ctx.Done():
		withdrawn := wire.AppendNotification(nil, "notifications/cancelled", fmt.Appendf(nil, `{"requestId":%d}`, id))
		if out.send(withdrawn) != nil { // the request that it came with was answered meanwhile
			c.out.send(withdrawn)
		}
		return nil, context.Cause(ctx)
	}
}

func cannotAnswer(method string) error {
	return &session.Error{Code: session.CodeMethodNotFound, Message: "the client does not support " + method}
}

// attributed returns the parameters of what a server asks a client. A person who
// is asked for something must see which server asks.
func attributed(server string, m session.Message) json.RawMessage {
	if m.Method != "elicitation/create" {
		return m.Params
	}
	message, ok := wire.String(wire.Member(m.Params, "message"))
	if !ok {
		return m.Params
	}
	return wire.SetMember(m.Params, "message", wire.AppendString(nil, server+": "+message))
}

// What follows makes a conversation a session.Client.

// Home implements [session.Client].
func (c *conversation) Home() session.Client {
	if c.visitor {
		return nil
	}
	return c
}

// Modern implements [session.Client].
func (c *conversation) Modern() bool { return false }

// Capabilities implements [session.Client].
func (c *conversation) Capabilities() json.RawMessage {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.capabilities == nil {
		return json.RawMessage("{}")
	}
	return c.capabilities
}

// Notify implements [session.Client].
func (c *conversation) Notify(_ string, m session.Message) {
	c.mu.Lock()
	ready := c.ready
	c.mu.Unlock()
	if ready && (m.Method != "notifications/message" || c.wants(m)) {
		c.out.send(wire.AppendNotification(nil, m.Method, m.Params))
	}
}

// askWait is how long a question waits for a request that can carry it, once the
// client has begun to make requests.
const askWait = 5 * time.Second

// Ask implements [session.Client]. It waits for a client that can be asked: one
// that has initialized, or a request of the modern era that can carry the
// question.
func (c *conversation) Ask(ctx context.Context, server string, m session.Message) (json.RawMessage, error) {
	var patience <-chan time.Time
	for {
		c.mu.Lock()
		ready, begun, changed := c.ready, c.begun, c.changed
		var carriers []*parking
		for _, r := range c.open {
			if r.parked != nil {
				carriers = append(carriers, r.parked)
			}
		}
		c.mu.Unlock()
		if ready {
			return c.put(ctx, c.out, server, m)
		}
		for _, p := range carriers {
			if answer, err := p.Ask(ctx, server, m); !errors.Is(err, errEnded) {
				return answer, err
			}
		}
		if begun && patience == nil {
			patience = time.After(askWait)
		}
		select {
		case <-changed:
		case <-patience:
			return nil, &session.Error{Code: session.CodeInternal, Message: "no request of the client is under way that could carry the question"}
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

func (c *conversation) isOpened() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.opened
}

// levels are the severities of log messages, the least severe first.
var levels = []string{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}

// wants reports whether a log message is severe enough for the client.
func (c *conversation) wants(m session.Message) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return severe(m, c.level)
}

// severe reports whether a log message is at least of the level.
func severe(m session.Message, level string) bool {
	theirs, _ := wire.String(wire.Member(m.Params, "level"))
	return slices.Index(levels, theirs) >= slices.Index(levels, level)
}
